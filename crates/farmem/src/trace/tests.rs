//! Records survive encoding and decoding, and invalid bytes are rejected with their position.

use super::*;

const HEADER: Header = Header { page: 4096, dram: 64 << 20, minor_period: 16, steered: true };

fn bytes(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::begin(&HEADER, &mut bytes);
    records.iter().for_each(|record| encoder.add(record, &mut bytes));
    bytes
}

fn fault(thread: u32, instruction: u64, page: u64, major: bool) -> Record {
    Record::Fault(Fault { process: 7, thread, instruction, address: page * 4096, major })
}

#[test]
fn decoded_records_equal_the_encoded_ones() {
    let range = |first: u64, pages: u64| first * 4096..(first + pages) * 4096;
    let records = vec![
        fault(7, 0x5555_0000_1234, 0x7_f000_0000, true),
        fault(8, 0x5555_0000_1234, 3, false),
        fault(7, 0x5555_0000_1234, 0x7_efff_ffff, true),
        fault(7, u64::MAX, 0, false),
        fault(7, 1, u64::MAX / 4096, true),
        Record::Look { now: 5_000_000, headroom: -4096 * 77 },
        Record::Fetch { process: 7, range: range(0x7_f000_0001, 128), far: Some(0) },
        Record::Fetch { process: 7, range: range(5, 1), far: None },
        Record::PageOut { process: u32::MAX, range: range(0x7_e000_0000, 512) },
        Record::Look { now: 5_000_000, headroom: i64::MAX / 4096 / 2 * 4096 },
        Record::Lost(u64::MAX >> KIND_BITS),
        Record::Gone(7),
    ];
    let bytes = bytes(&records);
    let decoder = Decoder::begin(&bytes).expect("a trace");
    assert_eq!(decoder.header, HEADER);
    assert_eq!(decoder.collect::<Result<Vec<_>, _>>(), Ok(records));
}

#[test]
fn sweep_takes_four_bytes_per_fault() {
    let sweep: Vec<Record> = (0..10_000).map(|page| fault(1, 0x1234, 0x7_f000_0000 + page, page % 8 == 0)).collect();
    assert!(bytes(&sweep).len() < 40_100, "{}", bytes(&sweep).len());
}

#[test]
fn invalid_traces_are_rejected_with_their_position() {
    let whole = bytes(&[fault(1, 2, 3, true), Record::Gone(900)]);
    let refused = |bytes: &[u8]| match Decoder::begin(bytes) {
        Err(damaged) => Err(damaged.to_string()),
        Ok(decoder) => decoder.collect::<Result<Vec<_>, _>>().map(drop).map_err(|damaged| damaged.to_string()),
    };
    assert_eq!(refused(&whole), Ok(()));
    assert_eq!(refused(b""), Err("not a fault trace: wrong magic bytes at byte 0".into()));
    let mut newer = whole.clone();
    newer[14] = 3;
    assert_eq!(refused(&newer), Err("not a fault trace: unknown version at byte 14".into()));
    let cut = &whole[..whole.len() - 1];
    assert_eq!(refused(cut), Err(format!("not a fault trace: truncated at byte {}", whole.len() - 2)));
    let sourceless = [&bytes(&[])[..], &[1, 2]].concat();
    assert_eq!(
        refused(&sourceless),
        Err(format!("not a fault trace: fault without source at byte {}", sourceless.len() - 2))
    );
    // Decoding ends without a panic for any bytes.
    for at in 15..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut broken = whole.clone();
            broken[at] = value;
            let _ = refused(&broken);
        }
    }
}
