//! Files that are written beside their place and moved there when they are complete: alone, or several that belong
//! together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at once: captures and traces are many small pieces.
const BUFFER: usize = 1 << 16;

/// What a file is called until it is complete: `.NAME.PID.part`, so that a directory's files with other names are
/// whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// Makes a file that was not there. What has its name goes: a symbolic link itself, not what it leads to.
pub(super) fn create_anew(path: &Path) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        made => made,
    }
}

/// A file that is written beside its place. Unless it is moved there, it is removed.
#[derive(Debug)]
pub struct Part {
    out: BufWriter<File>,
    staged: Staged,
}

impl Part {
    /// Begins the file that shall be at `path`.
    ///
    /// What is there may be a file or a symbolic link, which are replaced, but no device, pipe or directory.
    pub fn create(path: &Path) -> io::Result<Self> {
        let about = path.symlink_metadata().map(|about| about.file_type());
        if about.is_ok_and(|kind| !kind.is_file() && !kind.is_symlink()) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what has this name is no file"));
        }
        let part = beside(path);
        let out = BufWriter::with_capacity(BUFFER, create_anew(&part)?);
        Ok(Self { out, staged: Staged { path: path.to_owned(), part, is_done: false } })
    }

    /// It is complete: moves it to its place, once it is on the disk.
    pub fn finish(self) -> io::Result<()> {
        self.stage()?.place()
    }

    /// As [`finish`](Self::finish) without waiting for the disk, for files that are checked when they are read: a power
    /// failure may leave less of them.
    pub fn finish_unsynced(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.staged.place()
    }

    /// It is complete and on the disk, but waits for others to be moved with.
    pub fn stage(mut self) -> io::Result<Staged> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        Ok(self.staged)
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A complete file beside its place. Unless it is moved there, it is removed.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    part: PathBuf,
    is_done: bool,
}

impl Staged {
    /// The one that waits for `path`, if it is there.
    fn waiting(path: &Path) -> Self {
        Self { path: path.to_owned(), part: beside(path), is_done: false }
    }

    /// Whether there is such a file.
    pub(super) fn is_there(&self) -> bool {
        self.part.symlink_metadata().is_ok()
    }

    fn place(&mut self) -> io::Result<()> {
        fs::rename(&self.part, &self.path)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_done {
            // The first error is the one to report.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Moves complete files to their places in one directory. The last one is what says that they belong together: an
/// earlier one of its name goes first, so that the directory has none while it has files of two makings.
pub(super) fn place_together(mut files: Vec<Staged>) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let Some((last, others)) = files.split_last_mut() else { return Ok(Vec::new()) };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    if !others.is_empty()
        && let Err(error) = fs::remove_file(&last.path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed(&last.path)(error));
    }
    for file in others {
        file.place().map_err(failed(&file.path))?;
    }
    // Names reach the disk in this order, too.
    sync_folder(&last.path).map_err(failed(&last.path))?;
    last.place().map_err(failed(&last.path))?;
    sync_folder(&last.path).map_err(failed(&last.path))?;
    Ok(files.iter().map(|file| file.path.clone()).collect())
}

/// Waits until the names in the directory of `path` are on the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Where a run writes a capture or a trace: complete or not at all, and never through a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    path: PathBuf,
    /// Another moves it to its place, with what belongs to it.
    waits: bool,
}

impl Target {
    /// One that stays beside its place when it is complete, until [`waiting`](Self::waiting) is moved.
    pub(super) fn that_waits(path: PathBuf) -> Self {
        Self { path, waits: true }
    }

    /// The file that waits, if it has been completed.
    pub(super) fn waiting(&self) -> Staged {
        Staged::waiting(&self.path)
    }

    /// Where it shall be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins the file, and makes its directory if that is missing.
    pub fn create(&self) -> io::Result<Part> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        Part::create(&self.path)
    }

    /// The file is complete.
    pub fn finish(&self, part: Part) -> io::Result<()> {
        let mut staged = part.stage()?;
        if self.waits {
            staged.is_done = true;
            return Ok(());
        }
        staged.place()
    }
}

impl<P: Into<PathBuf>> From<P> for Target {
    fn from(path: P) -> Self {
        Self { path: path.into(), waits: false }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::{Part, Target, beside, place_together};

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (foreign, path) = (folder.path().join("foreign"), folder.path().join("packets.tr"));
        fs::write(&foreign, "foreign").unwrap();
        symlink(&foreign, &path).unwrap();
        // Somebody has guessed the name beside it, too.
        symlink(&foreign, beside(&path)).unwrap();
        let target = Target::from(path.as_path());
        let mut part = target.create().unwrap();
        part.write_all(b"own").unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "foreign",
            "nothing is at its place until it is complete"
        );
        target.finish(part).unwrap();
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "foreign");
        assert_eq!(fs::read_to_string(&path).unwrap(), "own");
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_last_of_files_that_belong_together_is_missing_while_they_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let stage = |name: &str, text: &str| {
            let mut part = Part::create(&folder.path().join(name)).unwrap();
            part.write_all(text.as_bytes()).unwrap();
            part.stage().unwrap()
        };
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        place_together(vec![stage("a", "1"), stage("b", "1"), stage("run.json", "1")]).unwrap();
        let files = vec![stage("a", "2"), stage("b", "2"), stage("run.json", "2")];
        // A directory comes in the way of the second file.
        fs::remove_file(folder.path().join("b")).unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        assert!(place_together(files).unwrap_err().0.ends_with("b"));
        assert_eq!([text("a"), text("run.json")], [Some("2".to_owned()), None]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside the files");
        let other = Part::create(&folder.path().join("b")).unwrap_err().to_string();
        assert!(other.contains("is no file"), "{other}");
    }
}
