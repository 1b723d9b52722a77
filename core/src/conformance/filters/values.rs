//! Values of each type on which engines are known to differ, or might: extremes, nulls, zeros, NaNs, odd text.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, make_builder};
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Fields, TimeUnit};

macro_rules! integers {
    ($array:ty, $native:ty) => {{
        let wanted = [
            0,
            1,
            2,
            3,
            7,
            10,
            42,
            -1,
            -2,
            -7,
            100,
            1_000,
            70_000,
            5_000_000_000_i128,
        ];
        let mut values = vec![None, Some(<$native>::MIN), Some(<$native>::MIN + 1)];
        values.extend(
            wanted
                .into_iter()
                .filter_map(|v| <$native>::try_from(v).ok())
                .map(Some),
        );
        values.extend([Some(<$native>::MAX - 1), Some(<$native>::MAX)]);
        values.dedup();
        Arc::new(<$array>::from(values)) as ArrayRef
    }};
}

/// Every type that filters compare, with values of it.
pub fn comparable() -> Vec<ArrayRef> {
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![None, Some(false), Some(true)])),
        integers!(Int8Array, i8),
        integers!(Int16Array, i16),
        integers!(Int32Array, i32),
        integers!(Int64Array, i64),
        integers!(UInt8Array, u8),
        integers!(UInt16Array, u16),
        integers!(UInt32Array, u32),
        integers!(UInt64Array, u64),
    ];
    all.extend(floats());
    all.extend(decimals());
    all.extend(texts());
    all.extend(bytes());
    all.extend(times());
    all
}

/// Floats of each width.
pub fn floats() -> Vec<ArrayRef> {
    type F16 = <Float16Type as ArrowPrimitiveType>::Native;
    let halves = [
        0xfe01, 0xfe00, 0xfc00, 0xfbff, 0xbe00, 0x8400, 0x8001, 0x8000, 0x0000, 0x0001, 0x0400,
        0x3c00, 0x3e00, 0x7bff, 0x7c00, 0x7e00, 0x7e01,
    ];
    let singles = [
        0xffc0_0001,
        0xffc0_0000,
        0xff80_0000,
        0xff7f_ffff,
        0xbfc0_0000,
        0x8080_0000,
        0x8000_0001,
        0x8000_0000,
        0,
        0x0000_0001,
        0x0080_0000,
        0x3f80_0000,
        0x3fc0_0000,
        0x4b80_0001,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x7fc0_0001_u32,
    ];
    let mut doubles: Vec<u64> = singles
        .iter()
        .map(|bits| f64::from(f32::from_bits(*bits)).to_bits())
        .collect();
    doubles.extend([
        1,
        1 << 63 | 1,
        f64::MAX.to_bits(),
        f64::MIN.to_bits(),
        f64::MIN_POSITIVE.to_bits(),
        0.1_f64.to_bits(),
        0x7ff0_0000_0000_0001,
        0xfff8_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        9_007_199_254_740_993_f64.to_bits(),
    ]);
    vec![
        Arc::new(Float16Array::from_iter(
            [None]
                .into_iter()
                .chain(halves.map(|bits| Some(F16::from_bits(bits)))),
        )),
        Arc::new(Float32Array::from_iter(
            [None]
                .into_iter()
                .chain(singles.map(|bits| Some(f32::from_bits(bits)))),
        )),
        Arc::new(Float64Array::from_iter([None].into_iter().chain(
            doubles.into_iter().map(|bits| Some(f64::from_bits(bits))),
        ))),
    ]
}

/// Decimals of each width and of several scales.
pub fn decimals() -> Vec<ArrayRef> {
    macro_rules! decimals {
        ($array:ty, $make:expr, $precision:expr, $scale:expr) => {{
            let most: Vec<i128> = vec![0, 1, -1, 42, -4200, 100, 12_345];
            let nines = $make(1)
                .wrapping_mul($make(10).wrapping_pow($precision as u32))
                .wrapping_sub($make(1));
            let mut values = vec![None];
            values.extend(most.into_iter().map(|v| Some($make(v))));
            values.extend([Some(nines), Some(nines.wrapping_neg())]);
            Arc::new(
                <$array>::from(values)
                    .with_precision_and_scale($precision, $scale)
                    .unwrap(),
            ) as ArrayRef
        }};
    }
    vec![
        decimals!(Decimal32Array, |v: i128| v as i32, 9, 2),
        decimals!(Decimal64Array, |v: i128| v as i64, 18, 3),
        decimals!(Decimal128Array, |v: i128| v, 10, 2),
        decimals!(Decimal128Array, |v: i128| v, 20, 5),
        decimals!(Decimal128Array, |v: i128| v, 38, 0),
        decimals!(Decimal128Array, |v: i128| v, 38, 10),
        decimals!(Decimal128Array, |v: i128| v, 6, -2),
        decimals!(Decimal256Array, i256::from_i128, 40, 3),
        decimals!(Decimal256Array, i256::from_i128, 60, 10),
    ]
}

/// Text on which matching and ordering are delicate.
pub const TEXTS: [Option<&str>; 26] = [
    None,
    Some(""),
    Some("a"),
    Some("A"),
    Some("ab"),
    Some("aB"),
    Some("abc"),
    Some("b"),
    Some("a%b"),
    Some("a_b"),
    Some("a\\b"),
    Some("a\\"),
    Some("%"),
    Some("a.b"),
    Some("a\nb"),
    Some("\0"),
    Some("ß"),
    Some("é"),
    Some("e\u{301}"),
    Some("k"),
    Some("\u{212a}"),
    Some("日本"),
    Some("😀"),
    Some("a long value of text"),
    Some("a long value of texts"),
    Some("A LONG VALUE of text"),
];

/// Text in each representation.
pub fn texts() -> Vec<ArrayRef> {
    vec![
        Arc::new(StringArray::from_iter(TEXTS)),
        Arc::new(LargeStringArray::from_iter(TEXTS)),
        Arc::new(StringViewArray::from_iter(TEXTS)),
    ]
}

/// Bytes in each representation.
pub fn bytes() -> Vec<ArrayRef> {
    let values: Vec<Option<&[u8]>> = vec![
        None,
        Some(b""),
        Some(b"\0"),
        Some(b"\0\0"),
        Some(b"\xff"),
        Some(b"abcd"),
        Some(b"abce"),
        Some(b"bytes that a view cannot inline"),
        Some(b"bytes that a view cannot inlinf"),
    ];
    let mut fixed = FixedSizeBinaryBuilder::new(4);
    fixed.append_null();
    for value in [b"\0\0\0\0", b"abcd", b"abce", b"\xff\xff\xff\xff"] {
        fixed.append_value(value).unwrap();
    }
    vec![
        Arc::new(BinaryArray::from_iter(values.clone())),
        Arc::new(LargeBinaryArray::from_iter(values.clone())),
        Arc::new(BinaryViewArray::from_iter(values)),
        Arc::new(fixed.finish()),
    ]
}

/// Dates, times, timestamps and durations in each unit.
pub fn times() -> Vec<ArrayRef> {
    let day = 86_400;
    let wide = vec![
        None,
        Some(i64::MIN),
        Some(-1),
        Some(0),
        Some(1),
        Some(1_700_000_000),
        Some(1_700_000_000_000),
        Some(1_700_000_000_000_000_000),
        Some(i64::MAX),
    ];
    let within_a_day = |ticks: i64| {
        vec![
            None,
            Some(0),
            Some(1),
            Some(3_600 * ticks),
            Some(day * ticks - 1),
        ]
    };
    let narrow = |ticks: i64| {
        within_a_day(ticks)
            .into_iter()
            .map(|v| v.map(|v| v as i32))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(Date32Array::from(vec![
            None,
            Some(i32::MIN),
            Some(-1),
            Some(0),
            Some(1),
            Some(19_675),
            Some(i32::MAX),
        ])),
        Arc::new(Date64Array::from(vec![
            None,
            Some(-86_400_000),
            Some(-1),
            Some(0),
            Some(1),
            Some(86_400_000),
            Some(19_675 * 86_400_000),
            Some(i64::MAX),
        ])),
        Arc::new(Time32SecondArray::from(narrow(1))),
        Arc::new(Time32MillisecondArray::from(narrow(1_000))),
        Arc::new(Time64MicrosecondArray::from(within_a_day(1_000_000))),
        Arc::new(Time64NanosecondArray::from(within_a_day(1_000_000_000))),
        Arc::new(DurationSecondArray::from(wide.clone())),
        Arc::new(DurationMillisecondArray::from(wide.clone())),
        Arc::new(DurationMicrosecondArray::from(wide.clone())),
        Arc::new(DurationNanosecondArray::from(wide.clone())),
    ];
    for zone in [None, Some("UTC"), Some("+01:00"), Some("Europe/Berlin")] {
        all.extend(TIME_UNITS.map(|unit| timestamps(unit, zone, wide.clone())));
    }
    all
}

/// The units of time, coarse to fine.
pub const TIME_UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

/// Timestamps of a unit and zone.
pub fn timestamps(unit: TimeUnit, zone: Option<&str>, ticks: Vec<Option<i64>>) -> ArrayRef {
    match unit {
        TimeUnit::Second => Arc::new(TimestampSecondArray::from(ticks).with_timezone_opt(zone)),
        TimeUnit::Millisecond => {
            Arc::new(TimestampMillisecondArray::from(ticks).with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(TimestampMicrosecondArray::from(ticks).with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(TimestampNanosecondArray::from(ticks).with_timezone_opt(zone))
        }
    }
}

/// Types that are not compared, of which only nulls are asked.
pub fn opaque() -> Vec<ArrayRef> {
    let numbers = Int32Array::from(vec![None, Some(1)]);
    let fields: Fields = vec![Field::new("x", DataType::Int32, true)].into();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        None,
        Some(vec![Some(1), None]),
        Some(vec![]),
    ]);
    let interval = IntervalMonthDayNanoType::make_value(1, 2, 3);
    let mut empty_list = make_builder(&DataType::new_large_list(DataType::Int32, true), 0);
    vec![
        Arc::new(NullArray::new(2)),
        Arc::new(StructArray::new(
            fields,
            vec![Arc::new(numbers)],
            Some(vec![true, false].into()),
        )),
        Arc::new(lists),
        Arc::new(IntervalMonthDayNanoArray::from(vec![None, Some(interval)])),
        empty_list.finish(),
    ]
}

/// The values as a dictionary in which keys repeat, null stands among keys and among values, and one value is unused.
pub fn dictionary(keys: &DataType, values: &ArrayRef) -> ArrayRef {
    let count = values.len();
    let mut order: Vec<Option<i64>> = (0..count as i64).map(Some).collect();
    order.extend([None, Some(1), Some(count as i64 - 2)]);
    order.swap_remove(2);
    let order = arrow_cast::cast(&Int64Array::from(order), keys).unwrap();
    macro_rules! dictionary {
        ($type:ty) => {
            Arc::new(DictionaryArray::<$type>::new(
                arrow_array::cast::AsArray::as_primitive::<$type>(&order).clone(),
                Arc::clone(values),
            )) as ArrayRef
        };
    }
    match keys {
        DataType::Int8 => dictionary!(Int8Type),
        DataType::UInt16 => dictionary!(UInt16Type),
        DataType::Int64 => dictionary!(Int64Type),
        _ => dictionary!(Int32Type),
    }
}
