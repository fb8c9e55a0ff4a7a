//! The table as Parquet, read back.

use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use super::super::columns::{Column, Kind};
use super::super::values::Datum;
use super::{GROUP, Parquet};

#[test]
fn what_is_written_reads_back_over_several_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, meaning: "" };
    let columns = [
        column("bottleneck.qdisc", Kind::Text),
        column("ecn", Kind::Truth),
        column("cell", Kind::Integer),
        column("fct_s", Kind::Number),
    ];
    let mut table = Parquet::create(&path, &columns).unwrap();
    let count = GROUP + 3;
    for index in 0..count {
        let third = index % 3 == 0;
        table
            .row(vec![
                if third { Datum::Missing } else { Datum::Text(format!("q {}", index % 7)) },
                Datum::Truth(index % 2 == 0),
                Datum::Integer(index as i64),
                if third { Datum::Number(index as f64 / 3.0) } else { Datum::Missing },
            ])
            .unwrap();
    }
    assert!(!path.exists(), "a table that is not complete is not there");
    weir_report::output::place(vec![table.finish().unwrap()]).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 2);
    let mut seen = 0;
    for (index, row) in reader.get_row_iter(None).unwrap().enumerate() {
        let row = row.unwrap();
        assert_eq!(row.get_long(2).unwrap(), index as i64);
        assert_eq!(row.get_bool(1).unwrap(), index % 2 == 0);
        if index % 3 == 0 {
            assert!(row.get_string(0).is_err());
            assert_eq!(row.get_double(3).unwrap(), index as f64 / 3.0);
        } else {
            assert_eq!(row.get_string(0).unwrap(), &format!("q {}", index % 7));
        }
        seen += 1;
    }
    assert_eq!(seen, count);
}
