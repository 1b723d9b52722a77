//! Arrays of any type from a seed: with nulls, slices of longer ones, and with parts that nothing refers to.
#![allow(clippy::expect_used, clippy::panic)] // For tests, where a panic is a finding.

use std::sync::Arc;

use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, GenericListViewArray,
    MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StructArray, UnionArray, make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::{ArrayData, ByteView};
use arrow_schema::{DataType, FieldRef, Fields, TimeUnit, UnionFields, UnionMode};

/// A sequence of numbers that depends on its seed alone (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// Values of any type, from a seed of their own and one of the dictionaries among them.
pub(super) struct Values {
    random: Random,
    dictionaries: Random,
}

impl Values {
    pub(super) fn new(seed: u64, dictionaries: u64) -> Self {
        Self {
            random: Random(seed),
            dictionaries: Random(dictionaries),
        }
    }

    /// An array of `rows`, often a slice of a longer one.
    pub(super) fn sliced(&mut self, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
        if self.random.one_in(2) {
            return self.array(data_type, rows, nullable);
        }
        let (before, after) = (self.random.below(20), self.random.below(10));
        self.array(data_type, before + rows + after, nullable)
            .slice(before, rows)
    }

    fn nulls(&mut self, rows: usize, nullable: bool) -> Option<NullBuffer> {
        let sparse = self.random.below(3);
        if !nullable || sparse == 0 {
            return None;
        }
        Some(BooleanBuffer::collect_bool(rows, |_| !self.random.one_in(1 + 2 * sparse)).into())
    }

    fn array(&mut self, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
        match data_type {
            DataType::Null => Arc::new(NullArray::new(rows)),
            DataType::Utf8 | DataType::Binary => self.bytes::<i32>(data_type, rows, nullable),
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.bytes::<i64>(data_type, rows, nullable)
            }
            DataType::Utf8View | DataType::BinaryView => self.views(data_type, rows, nullable),
            DataType::List(child) => self.list::<i32>(child, rows, nullable),
            DataType::LargeList(child) => self.list::<i64>(child, rows, nullable),
            DataType::ListView(child) => self.list_view::<i32>(child, rows, nullable),
            DataType::LargeListView(child) => self.list_view::<i64>(child, rows, nullable),
            DataType::FixedSizeList(child, size) => {
                let values = self.sliced(
                    child.data_type(),
                    rows * *size as usize,
                    child.is_nullable(),
                );
                let nulls = self.nulls(rows, nullable);
                let list = FixedSizeListArray::try_new_with_length(
                    Arc::clone(child),
                    *size,
                    values,
                    nulls,
                    rows,
                );
                Arc::new(list.expect("sound fixed-size list"))
            }
            DataType::Struct(fields) => {
                let nulls = self.nulls(rows, nullable);
                Arc::new(self.structs(fields, rows, nulls))
            }
            DataType::Map(entries, is_sorted) => self.map(entries, *is_sorted, rows, nullable),
            DataType::Union(fields, mode) => self.union(fields, *mode, rows, nullable),
            DataType::RunEndEncoded(ends, values) => {
                self.runs(data_type, ends.data_type(), values, rows, nullable)
            }
            DataType::Dictionary(keys, values) => self.dictionary(keys, values, rows, nullable),
            _ => self.fixed_width(data_type, rows, nullable),
        }
    }

    fn fixed_width(&mut self, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
        let mut bytes = Vec::new();
        let width = match data_type {
            DataType::FixedSizeBinary(width) => *width as usize,
            DataType::Boolean => 1,
            _ => data_type.primitive_width().expect("a primitive type"),
        };
        for _ in 0..rows {
            let value = self.number(data_type);
            let sign = if value < 0 { 0xff } else { 0 };
            let repeat = matches!(
                data_type,
                DataType::FixedSizeBinary(_) | DataType::Interval(_)
            );
            let value = value.to_le_bytes();
            let extended = (0..width).map(|at| match repeat {
                true => value[at % 8],
                false => value.get(at).copied().unwrap_or(sign),
            });
            bytes.extend(extended);
        }
        let data = ArrayData::builder(data_type.clone())
            .len(rows)
            .add_buffer(Buffer::from_slice_ref(&bytes))
            .nulls(self.nulls(rows, nullable));
        make_array(data.build().expect("sound values"))
    }

    /// A value that stays within what its type means, as an integer of its width.
    fn number(&mut self, data_type: &DataType) -> i64 {
        let raw = self.random.next() as i64;
        const DAY_MILLISECONDS: i64 = 86_400_000;
        match data_type {
            DataType::Decimal32(_, _) => raw % 1_000_000_000,
            DataType::Decimal64(_, _) => raw % 1_000_000_000_000_000_000,
            DataType::Date32 => raw % 100_000,
            DataType::Date64 => raw % 100_000 * DAY_MILLISECONDS,
            DataType::Time32(TimeUnit::Second) => raw.rem_euclid(86_400),
            DataType::Time32(_) => raw.rem_euclid(DAY_MILLISECONDS),
            DataType::Time64(TimeUnit::Microsecond) => raw.rem_euclid(DAY_MILLISECONDS * 1_000),
            DataType::Time64(_) => raw.rem_euclid(DAY_MILLISECONDS * 1_000_000),
            DataType::Timestamp(TimeUnit::Second, _) => raw % 10_000_000_000,
            DataType::Timestamp(TimeUnit::Millisecond, _) => raw % 10_000_000_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => raw % 10_000_000_000_000_000,
            _ => raw,
        }
    }

    fn text(&mut self) -> Vec<u8> {
        const PIECES: [&str; 6] = ["", "a", "é", "日本", "a longer piece of text", "🦀"];
        let count = self.random.below(4);
        (0..count)
            .flat_map(|_| PIECES[self.random.below(PIECES.len())].bytes())
            .collect()
    }

    fn bytes<O: OffsetSizeTrait>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let texts: Vec<Vec<u8>> = (0..rows).map(|_| self.text()).collect();
        let offsets = OffsetBuffer::<O>::from_lengths(texts.iter().map(Vec::len));
        let data = ArrayData::builder(data_type.clone())
            .len(rows)
            .add_buffer(offsets.into_inner().into_inner())
            .add_buffer(Buffer::from(texts.concat()))
            .nulls(self.nulls(rows, nullable));
        make_array(data.build().expect("sound strings"))
    }

    /// Views in three buffers, of which parts are not referred to.
    fn views(&mut self, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
        let mut buffers: [Vec<u8>; 3] = Default::default();
        let mut views: Vec<u128> = Vec::with_capacity(rows);
        for _ in 0..rows {
            let text = self.text();
            if text.len() <= 12 {
                let mut view = [0; 16];
                view[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
                view[4..4 + text.len()].copy_from_slice(&text);
                views.push(u128::from_le_bytes(view));
                continue;
            }
            let index = self.random.below(buffers.len());
            if self.random.one_in(4) {
                buffers[index].extend_from_slice(&[b'.'; 50]);
            }
            let view = ByteView::new(text.len() as u32, &text[..4])
                .with_buffer_index(index as u32)
                .with_offset(buffers[index].len() as u32);
            buffers[index].extend_from_slice(&text);
            views.push(view.into());
        }
        let data = ArrayData::builder(data_type.clone())
            .len(rows)
            .add_buffer(ScalarBuffer::from(views).into_inner())
            .add_buffers(buffers.into_iter().map(Buffer::from))
            .nulls(self.nulls(rows, nullable));
        make_array(data.build().expect("sound views"))
    }

    fn lengths(&mut self, rows: usize) -> Vec<usize> {
        (0..rows).map(|_| self.random.below(4)).collect()
    }

    fn list<O: OffsetSizeTrait>(
        &mut self,
        child: &FieldRef,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let lengths = self.lengths(rows);
        let total: usize = lengths.iter().sum();
        let offsets = OffsetBuffer::<O>::from_lengths(lengths);
        let extra = self.random.below(3);
        let values = self.sliced(child.data_type(), total + extra, child.is_nullable());
        let nulls = self.nulls(rows, nullable);
        let list = GenericListArray::<O>::try_new(Arc::clone(child), offsets, values, nulls);
        Arc::new(list.expect("sound list"))
    }

    /// Lists that overlap and stand in any order.
    fn list_view<O: OffsetSizeTrait>(
        &mut self,
        child: &FieldRef,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let held = 3 + self.random.below(60);
        let values = self.sliced(child.data_type(), held, child.is_nullable());
        let sizes = self.lengths(rows);
        let offsets: Vec<O> = sizes
            .iter()
            .map(|size| O::usize_as(self.random.below(held - size + 1)))
            .collect();
        let sizes: Vec<O> = sizes.into_iter().map(O::usize_as).collect();
        let nulls = self.nulls(rows, nullable);
        let list = GenericListViewArray::<O>::try_new(
            Arc::clone(child),
            ScalarBuffer::from(offsets),
            ScalarBuffer::from(sizes),
            values,
            nulls,
        );
        Arc::new(list.expect("sound list view"))
    }

    fn structs(&mut self, fields: &Fields, rows: usize, nulls: Option<NullBuffer>) -> StructArray {
        let columns = fields
            .iter()
            .map(|field| self.sliced(field.data_type(), rows, field.is_nullable()))
            .collect();
        StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)
            .expect("sound structs")
    }

    fn map(
        &mut self,
        entries: &FieldRef,
        is_sorted: bool,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let DataType::Struct(fields) = entries.data_type() else {
            panic!("the entries of a map are structs");
        };
        let lengths = self.lengths(rows);
        let total = lengths.iter().sum();
        let pairs = self.structs(fields, total, None);
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls = self.nulls(rows, nullable);
        let map = MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, is_sorted);
        Arc::new(map.expect("sound map"))
    }

    fn union(
        &mut self,
        fields: &UnionFields,
        mode: UnionMode,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let ids: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
        let type_ids: Vec<i8> = (0..rows)
            .map(|_| ids[self.random.below(ids.len())])
            .collect();
        let (lengths, offsets) = match mode {
            UnionMode::Sparse => (vec![rows; ids.len()], None),
            UnionMode::Dense => {
                let held: Vec<usize> = ids
                    .iter()
                    .map(|_| 1 + self.random.below(rows + 5))
                    .collect();
                let offsets: Vec<i32> = type_ids
                    .iter()
                    .map(|id| {
                        let child = ids
                            .iter()
                            .position(|other| other == id)
                            .expect("a known id");
                        self.random.below(held[child]) as i32
                    })
                    .collect();
                (held, Some(ScalarBuffer::from(offsets)))
            }
        };
        let children = fields
            .iter()
            .zip(lengths)
            .map(|((_, field), length)| {
                self.sliced(field.data_type(), length, nullable && field.is_nullable())
            })
            .collect();
        let union = UnionArray::try_new(
            fields.clone(),
            ScalarBuffer::from(type_ids),
            offsets,
            children,
        );
        Arc::new(union.expect("sound union"))
    }

    fn runs(
        &mut self,
        data_type: &DataType,
        ends: &DataType,
        values: &FieldRef,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let mut run_ends = Vec::new();
        let mut end = 0;
        while end < rows {
            end += 1 + self.random.below(5);
            run_ends.push(end as i64);
        }
        let values = self.sliced(
            values.data_type(),
            run_ends.len(),
            nullable && values.is_nullable(),
        );
        let ends: ArrayRef = match ends {
            DataType::Int16 => Arc::new(PrimitiveArray::<Int16Type>::from_iter_values(
                run_ends.iter().map(|end| *end as i16),
            )),
            DataType::Int32 => Arc::new(PrimitiveArray::<Int32Type>::from_iter_values(
                run_ends.iter().map(|end| *end as i32),
            )),
            _ => Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(run_ends)),
        };
        let data = ArrayData::builder(data_type.clone())
            .len(rows)
            .add_child_data(ends.to_data())
            .add_child_data(values.to_data());
        make_array(data.build().expect("sound runs"))
    }

    fn dictionary(
        &mut self,
        keys: &DataType,
        values: &DataType,
        rows: usize,
        nullable: bool,
    ) -> ArrayRef {
        let held = 1 + self.dictionaries.below(30);
        let seed = self.dictionaries.next();
        let mut entries = Values::new(seed, !seed);
        let entries = entries.sliced(values, held, false);
        let keys_at: Vec<usize> = (0..rows).map(|_| self.random.below(held)).collect();
        let nulls = self.nulls(rows, nullable);
        macro_rules! of {
            ($($data_type:ident $key:ident),*) => {
                match keys {
                    $(DataType::$data_type => {
                        let keys = keys_at.into_iter().map(|key| key as _).collect::<Vec<_>>();
                        let keys = PrimitiveArray::<$key>::new(ScalarBuffer::from(keys), nulls);
                        let array = DictionaryArray::try_new(keys, entries);
                        Arc::new(array.expect("sound dictionary")) as ArrayRef
                    })*
                    other => panic!("{other} cannot be the key of a dictionary"),
                }
            };
        }
        of!(
            Int8 Int8Type, Int16 Int16Type, Int32 Int32Type, Int64 Int64Type,
            UInt8 UInt8Type, UInt16 UInt16Type, UInt32 UInt32Type, UInt64 UInt64Type
        )
    }
}
