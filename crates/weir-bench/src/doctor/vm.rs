//! What the world `vm` needs: an emulator, kernels to boot, and what the guest's file system is made of.

use std::io;

use super::{Check, Failure, Status, fix, run};
use weir_vm::Cache;
use weir_vm::initramfs::host_has;
use weir_vm::kvm;

const EMULATOR: &str = "qemu-system-x86_64";
/// What every guest is given, besides what the world `kernel` needs, and the packages that have it.
const PROGRAMS: [(&str, &str); 3] = [("busybox", "busybox-static"), ("sh", "dash"), ("ldd", "libc-bin")];
/// What takes a kernel out of a distribution's packages, and the packages that have that.
const FETCHING: [(&str, &str); 5] =
    [("curl", "curl"), ("gpgv", "gpgv"), ("dpkg-deb", "dpkg"), ("xz", "xz-utils"), ("tar", "tar")];

pub(super) fn checks() -> Vec<Check> {
    vec![emulator(), acceleration(), kernels(), programs(), fetching()]
}

fn check(name: &'static str, found: Result<String, Failure>) -> Check {
    super::check("vm", name, found)
}

fn install(package: &str) -> Option<String> {
    fix(&format!("apt-get install -y {package}"))
}

fn emulator() -> Check {
    let said = run(EMULATOR, &["--version"]).map(|said| said.lines().next().unwrap_or("found").to_owned());
    let failed = |error: io::Error| (Status::Missing, error.to_string(), install("qemu-system-x86"));
    check(EMULATOR, said.map_err(failed))
}

fn acceleration() -> Check {
    let ran = kvm::probe().map(|()| "QEMU can use it".to_owned());
    check("/dev/kvm", ran.map_err(|error| not_accelerated(&error)))
}

fn not_accelerated(error: &io::Error) -> Failure {
    let mend = match error.kind() {
        io::ErrorKind::NotFound => "modprobe kvm_intel || modprobe kvm_amd",
        io::ErrorKind::PermissionDenied => "adduser $USER kvm, and log in again",
        _ => "switch nested virtualisation on in the host of this virtual machine",
    };
    (Status::Limited, format!("{error}; guests are emulated, several times slower"), fix(mend))
}

fn kernels() -> Check {
    check(
        "kernels",
        match Cache::of_user() {
            Ok(cache) => kernels_in(&cache),
            Err(error) => Err((Status::Missing, error.to_string(), fix("export WEIR_VM_CACHE=DIR"))),
        },
    )
}

fn kernels_in(cache: &Cache) -> Result<String, Failure> {
    let names: Vec<String> = cache.kernels().into_iter().map(|kernel| kernel.about.release).collect();
    let place = cache.dir().display();
    if names.is_empty() {
        return Err((Status::Missing, format!("none in {place}"), fix("weir vm fetch 6.12")));
    }
    Ok(format!("{} in {place}", names.join(", ")))
}

fn programs() -> Check {
    check("guest's programs", all_of(&PROGRAMS, Status::Missing, ""))
}

fn fetching() -> Check {
    check("to fetch kernels", all_of(&FETCHING, Status::Limited, "; only kernels that are there can run"))
}

/// Whether all these programs are there; one command installs those that are not.
fn all_of(programs: &[(&str, &str)], status: Status, consequence: &str) -> Result<String, Failure> {
    let missing: Vec<_> = programs.iter().filter(|(name, _)| !host_has(name)).collect();
    if missing.is_empty() {
        let names: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
        return Ok(names.join(", "));
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err((status, format!("no {}{consequence}", names.join(", ")), install(&packages.join(" "))))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Status, all_of, kernels_in, not_accelerated};
    use weir_vm::Cache;

    #[test]
    fn an_empty_cache_is_filled_by_a_command() {
        let folder = tempfile::tempdir().unwrap();
        for dir in [folder.path().to_owned(), folder.path().join("none")] {
            let (status, detail, fix) = kernels_in(&Cache::at(&dir)).unwrap_err();
            assert_eq!(status, Status::Missing);
            assert!(detail.contains(dir.to_str().unwrap()), "{detail}");
            assert!(fix.unwrap().starts_with("weir vm fetch"));
        }
    }

    #[test]
    fn missing_programs_are_installed_together() {
        let programs = [("sh", "dash"), ("weir-none-a", "none-a"), ("weir-none-b", "none-b")];
        let (status, detail, fix) = all_of(&programs, Status::Limited, "; less").unwrap_err();
        assert_eq!((status, detail.as_str()), (Status::Limited, "no weir-none-a, weir-none-b; less"));
        assert_eq!(fix.unwrap(), "apt-get install -y none-a none-b");
        assert_eq!(all_of(&programs[..1], Status::Missing, "").unwrap(), "sh");
    }

    #[test]
    fn a_device_that_is_there_but_closed_needs_its_group() {
        let closed = not_accelerated(&io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(closed.2.unwrap().contains("adduser"));
        let absent = not_accelerated(&io::Error::from(io::ErrorKind::NotFound));
        assert!(absent.2.unwrap().contains("modprobe"));
        let useless = not_accelerated(&io::Error::other("QEMU cannot use KVM"));
        assert_eq!(useless.0, Status::Limited);
        assert!(useless.2.unwrap().contains("nested"));
    }
}
