//! How single values are written to disk: as text or as bytes, and valid when they are read.

/// Written as its text, and parsed when it is read.
macro_rules! as_text {
    ($name:ident) => {
        impl<C> minicbor::Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                to: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                to.str(self.as_str())?.ok()
            }
        }

        impl<'b, C> minicbor::Decode<'b, C> for $name {
            fn decode(
                from: &mut minicbor::Decoder<'b>,
                _: &mut C,
            ) -> Result<Self, minicbor::decode::Error> {
                let at = from.position();
                let invalid = |why| {
                    let about = format!("{} {why}", stringify!($name));
                    minicbor::decode::Error::message(about).at(at)
                };
                from.str()?.parse().map_err(invalid)
            }
        }
    };
}

/// Written as the bytes it is made of, always as many.
macro_rules! as_bytes {
    ($name:ident) => {
        impl<C> minicbor::Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                to: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                to.bytes(&self.to_bytes())?.ok()
            }
        }

        impl<'b, C> minicbor::Decode<'b, C> for $name {
            fn decode(
                from: &mut minicbor::Decoder<'b>,
                context: &mut C,
            ) -> Result<Self, minicbor::decode::Error> {
                minicbor::bytes::decode(from, context).map(Self::from_bytes)
            }
        }
    };
}

pub(crate) use {as_bytes, as_text};
