//! Whether a certificate names somebody else as the one who vouches for it.
//!
//! Reads just so much of X.509's encoding (RFC 5280, section 4.1) as that takes.

/// A certificate that is signed by its own key says so by naming itself; `None`: not readable.
pub(super) fn is_of_its_own(certificate: &[u8]) -> Option<bool> {
    let (certificate, _) = value(certificate)?;
    let (mut fields, _) = value(certificate)?;
    const VERSION: u8 = 0xa0;
    if fields.first() == Some(&VERSION) {
        fields = value(fields)?.1;
    }
    let (_serial, rest) = value(fields)?;
    let (_algorithm, rest) = value(rest)?;
    let (issuer, rest) = value(rest)?;
    let (_validity, rest) = value(rest)?;
    let (subject, _) = value(rest)?;
    Some(issuer == subject)
}

/// What the first element holds, and what follows it.
fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    const LONG: u8 = 0x80;
    let (&[_tag, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = if length & LONG == 0 {
        (usize::from(length), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(length & !LONG))?;
        if 4 < digits.len() {
            return None;
        }
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    rest.split_at_checked(length)
}
