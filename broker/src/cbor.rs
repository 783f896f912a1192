//! How fields are written to disk whose types have no form of their own there.

/// Bytes that are shared.
pub(crate) mod octets {
    use bytes::Bytes;
    use minicbor::{
        Decoder, Encoder,
        decode::Error as DecodeError,
        encode::{Error, Write},
    };

    pub(crate) fn encode<C, W: Write>(
        bytes: &Bytes,
        to: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), Error<W::Error>> {
        to.bytes(bytes)?.ok()
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, _: &mut C) -> Result<Bytes, DecodeError> {
        from.bytes().map(Bytes::copy_from_slice)
    }
}

/// Hashes of files.
pub(crate) mod hashes {
    use minicbor::{
        Decoder, Encoder,
        bytes::ByteArray,
        decode::Error as DecodeError,
        encode::{Error, Write},
    };

    pub(crate) fn encode<C, W: Write>(
        hashes: &[[u8; 32]],
        to: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), Error<W::Error>> {
        to.array(hashes.len() as u64)?;
        hashes.iter().try_for_each(|hash| to.bytes(hash)?.ok())
    }

    pub(crate) fn decode<C>(
        from: &mut Decoder<'_>,
        _: &mut C,
    ) -> Result<Vec<[u8; 32]>, DecodeError> {
        from.array_iter::<ByteArray<32>>()?.map(|hash| hash.map(Into::into)).collect()
    }
}

/// Rows of numbers, one behind the other in one byte string: for what there may be millions of.
/// Each number is in as many bytes as it takes, seven bits in each, the lowest first.
pub(crate) mod rows {
    use minicbor::{
        Decoder, Encoder,
        decode::Error as DecodeError,
        encode::{Error, Write},
    };
    use smallvec::SmallVec;

    pub(crate) trait Row<const N: usize>: Sized {
        fn to_numbers(&self) -> [u64; N];

        /// `None` for numbers that are no such row.
        fn of_numbers(numbers: [u64; N]) -> Option<Self>;
    }

    pub(crate) fn encode<const N: usize, R: Row<N>, W: Write>(
        rows: &[R],
        to: &mut Encoder<W>,
    ) -> Result<(), Error<W::Error>> {
        let mut bytes = SmallVec::<[u8; 128]>::new();
        for mut number in rows.iter().flat_map(R::to_numbers) {
            while 0x80 <= number {
                bytes.push(number.to_le_bytes()[0] | 0x80);
                number >>= 7;
            }
            bytes.push(number.to_le_bytes()[0]);
        }
        to.bytes(&bytes)?.ok()
    }

    pub(crate) fn decode<const N: usize, R: Row<N>, L: Default + Extend<R>>(
        from: &mut Decoder<'_>,
    ) -> Result<L, DecodeError> {
        let invalid = || DecodeError::message("a row of numbers is cut off or not valid");
        let (mut bytes, mut list) = (from.bytes()?, L::default());
        while !bytes.is_empty() {
            let mut numbers = [0; N];
            for number in &mut numbers {
                *number = take(&mut bytes).ok_or_else(invalid)?;
            }
            list.extend([R::of_numbers(numbers).ok_or_else(invalid)?]);
        }
        Ok(list)
    }

    fn take(bytes: &mut &[u8]) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = bytes.split_first()?;
            *bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}
