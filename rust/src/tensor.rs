//! Tensors: what goes into a request, and what a response has.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sys;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Datatype {
    /// One byte: 0 or 1.
    Bool,
    /// `u8`.
    Uint8,
    /// `u16`.
    Uint16,
    /// `u32`.
    Uint32,
    /// `u64`.
    Uint64,
    /// `i8`.
    Int8,
    /// `i16`.
    Int16,
    /// `i32`.
    Int32,
    /// `i64`.
    Int64,
    /// IEEE half precision, two bytes.
    Fp16,
    /// `f32`.
    Fp32,
    /// `f64`.
    Fp64,
    /// Texts or bytes of any length, each behind its length in four bytes.
    Bytes,
    /// The upper half of an `f32`, two bytes.
    Bf16,
}

impl Datatype {
    const ALL: [Datatype; 14] = [
        Self::Bool,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Fp16,
        Self::Fp32,
        Self::Fp64,
        Self::Bytes,
        Self::Bf16,
    ];

    pub(crate) fn raw(self) -> sys::TRITONSERVER_DataType {
        match self {
            Self::Bool => sys::TRITONSERVER_TYPE_BOOL,
            Self::Uint8 => sys::TRITONSERVER_TYPE_UINT8,
            Self::Uint16 => sys::TRITONSERVER_TYPE_UINT16,
            Self::Uint32 => sys::TRITONSERVER_TYPE_UINT32,
            Self::Uint64 => sys::TRITONSERVER_TYPE_UINT64,
            Self::Int8 => sys::TRITONSERVER_TYPE_INT8,
            Self::Int16 => sys::TRITONSERVER_TYPE_INT16,
            Self::Int32 => sys::TRITONSERVER_TYPE_INT32,
            Self::Int64 => sys::TRITONSERVER_TYPE_INT64,
            Self::Fp16 => sys::TRITONSERVER_TYPE_FP16,
            Self::Fp32 => sys::TRITONSERVER_TYPE_FP32,
            Self::Fp64 => sys::TRITONSERVER_TYPE_FP64,
            Self::Bytes => sys::TRITONSERVER_TYPE_BYTES,
            Self::Bf16 => sys::TRITONSERVER_TYPE_BF16,
        }
    }

    pub(crate) fn from_raw(raw: sys::TRITONSERVER_DataType) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.raw() == raw)
    }

    /// The size of an element in bytes; 0 for [`Datatype::Bytes`].
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => 2,
            Self::Uint32 | Self::Int32 | Self::Fp32 => 4,
            Self::Uint64 | Self::Int64 | Self::Fp64 => 8,
            Self::Bytes => 0,
        }
    }
}

mod sealed {
    pub trait Sealed {
        fn read(bytes: &[u8]) -> Self;
    }
}

/// A type of Rust that a datatype has the elements of. Its values have no padding.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The datatype.
    const DATATYPE: Datatype;
}

/// An [`Element`] that may have any bits.
pub trait Number: Element {}

macro_rules! numbers {
    ($($t:ty: $d:ident),*) => {$(
        impl sealed::Sealed for $t {
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_ne_bytes(own)
            }
        }
        impl Element for $t {
            const DATATYPE: Datatype = Datatype::$d;
        }
        impl Number for $t {}
    )*};
}

numbers!(u8: Uint8, u16: Uint16, u32: Uint32, u64: Uint64, i8: Int8, i16: Int16, i32: Int32, i64: Int64, f32: Fp32, f64: Fp64);

impl sealed::Sealed for bool {
    fn read(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl Element for bool {
    const DATATYPE: Datatype = Datatype::Bool;
}

/// Elements of one datatype in a shape. A clone has the same memory; nothing changes it.
#[derive(Clone)]
pub struct Tensor {
    datatype: Datatype,
    shape: Vec<i64>,
    at: NonNull<u8>,
    len: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is read only, and its owner may go to and be used by every thread.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// A tensor of the values, which are not copied.
    ///
    /// # Errors
    ///
    /// `InvalidArg` where the shape has not as many elements.
    pub fn new<T: Element>(shape: &[i64], values: Vec<T>) -> Result<Self> {
        let wanted = elements(shape)?;
        if wanted != values.len() {
            return Err(Error::invalid(format!(
                "shape {shape:?} has {wanted} elements, got {}",
                values.len()
            )));
        }
        let at = NonNull::from(values.as_slice()).cast();
        let len = size_of_val(values.as_slice());
        // SAFETY: a vector's elements stay where they are when the vector moves; elements have
        // no padding, so all of their bytes can be read.
        Ok(unsafe { Self::of(T::DATATYPE, shape, at, len, Arc::new(values)) })
    }

    /// A tensor in memory of the owner, which is not copied: a file in memory, a buffer of a
    /// pool, halves as bytes. The owner is dropped when the last tensor and request has let go
    /// of it, on whatever thread that is; there, a panic of its drop is caught.
    ///
    /// # Errors
    ///
    /// `InvalidArg` where the memory has not the size of the shape, or is no sequence of
    /// elements with their lengths as [`Datatype::Bytes`] asks.
    pub fn from_owner<O>(datatype: Datatype, shape: &[i64], owner: O) -> Result<Self>
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        let wanted = elements(shape)?;
        let owner = Arc::new(owner);
        // Asked once: the memory is borrowed from here to the end of the owner.
        let bytes = (*owner).as_ref();
        let (at, len) = (NonNull::from(bytes).cast(), bytes.len());
        if datatype == Datatype::Bytes {
            let found = texts(bytes)?.len();
            if found != wanted {
                return Err(Error::invalid(format!(
                    "shape {shape:?} has {wanted} elements, got {found}"
                )));
            }
        } else if wanted.checked_mul(datatype.size()) != Some(len) {
            return Err(Error::invalid(format!(
                "shape {shape:?} has {wanted} elements of {} bytes, got {len} bytes",
                datatype.size()
            )));
        }
        // SAFETY: nobody has the owner mutably while the tensor lives.
        Ok(unsafe { Self::of(datatype, shape, at, len, owner) })
    }

    /// A tensor of texts, or of bytes: [`Datatype::Bytes`]. They are copied.
    ///
    /// # Errors
    ///
    /// `InvalidArg` where the shape has not as many elements, or one of them is too long.
    pub fn from_texts<S: AsRef<[u8]>>(shape: &[i64], values: &[S]) -> Result<Self> {
        let mut bytes = Vec::new();
        for value in values {
            let value = value.as_ref();
            let length = u32::try_from(value.len())
                .map_err(|_| Error::invalid("an element has 4 GiB or more"))?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(value);
        }
        Self::from_owner(Datatype::Bytes, shape, bytes)
    }

    /// # Safety
    ///
    /// `len` bytes from `at` on can be read, and do not change, as long as the owner lives.
    pub(crate) unsafe fn of(
        datatype: Datatype,
        shape: &[i64],
        at: NonNull<u8>,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            datatype,
            shape: shape.to_vec(),
            at,
            len,
            _owner: owner,
        }
    }

    /// The type of the elements.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The elements as they lie in memory.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `of`; the owner lives as long as self.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// A copy of the elements.
    ///
    /// # Errors
    ///
    /// `InvalidArg` where the tensor is of another datatype.
    pub fn values<T: Element>(&self) -> Result<Vec<T>> {
        self.expect(T::DATATYPE)?;
        let chunks = self.bytes().chunks_exact(size_of::<T>());
        Ok(chunks.map(T::read).collect())
    }

    /// The elements where they lie. Outputs are aligned for it.
    ///
    /// # Errors
    ///
    /// `InvalidArg` where the tensor is of another datatype, or its memory not aligned.
    pub fn as_slice<T: Number>(&self) -> Result<&[T]> {
        self.expect(T::DATATYPE)?;
        if self.at.as_ptr() as usize % align_of::<T>() != 0 {
            return Err(Error::invalid("the tensor's memory is not aligned"));
        }
        // SAFETY: it is aligned, large enough, and a number may have any bits.
        Ok(unsafe {
            std::slice::from_raw_parts(self.at.as_ptr().cast(), self.len / size_of::<T>())
        })
    }

    /// The elements of a tensor of [`Datatype::Bytes`].
    ///
    /// # Errors
    ///
    /// `InvalidArg` where the tensor is of another datatype.
    pub fn texts(&self) -> Result<Vec<&[u8]>> {
        self.expect(Datatype::Bytes)?;
        texts(self.bytes())
    }

    fn expect(&self, datatype: Datatype) -> Result<()> {
        if self.datatype == datatype {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the tensor is of {:?}, not of {datatype:?}",
            self.datatype
        )))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("datatype", &self.datatype)
            .field("shape", &self.shape)
            .field("bytes", &self.len)
            .finish()
    }
}

/// How many elements a shape has.
fn elements(shape: &[i64]) -> Result<usize> {
    let count = shape
        .iter()
        .try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?));
    count.ok_or_else(|| Error::invalid(format!("{shape:?} is no shape of a tensor")))
}

/// Splits elements behind their lengths.
fn texts(mut bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let cut = || Error::invalid("an element ends behind the end of the tensor");
        let (length, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > rest.len() {
            return Err(cut());
        }
        let (text, rest) = rest.split_at(length);
        all.push(text);
        bytes = rest;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn values_come_back() {
        let t = Tensor::new(&[2, 2], vec![1i64, -2, 3, i64::MAX]).unwrap();
        assert_eq!(t.datatype(), Datatype::Int64);
        assert_eq!(t.shape(), [2, 2]);
        assert_eq!(t.values::<i64>().unwrap(), [1, -2, 3, i64::MAX]);
        assert_eq!(t.as_slice::<i64>().unwrap(), [1, -2, 3, i64::MAX]);
        assert_eq!(t.bytes().len(), 32);
        let t = Tensor::new(&[3], vec![true, false, true]).unwrap();
        assert_eq!(t.values::<bool>().unwrap(), [true, false, true]);
    }

    #[test]
    fn bools_may_be_any_byte() {
        let t = Tensor::from_owner(Datatype::Bool, &[3], vec![0, 1, 7]).unwrap();
        assert_eq!(t.values::<bool>().unwrap(), [false, true, true]);
    }

    #[test]
    fn texts_come_back() {
        let t = Tensor::from_texts(&[3], &["one", "", "drei"]).unwrap();
        assert_eq!(t.texts().unwrap(), [&b"one"[..], b"", b"drei"]);
        assert_eq!(t.bytes()[..7], *b"\x03\0\0\0one");
    }

    #[test]
    fn empty_tensors() {
        let t = Tensor::new(&[0, 4], Vec::<f64>::new()).unwrap();
        assert!(t.bytes().is_empty() && t.as_slice::<f64>().unwrap().is_empty());
        assert!(Tensor::from_texts::<&str>(&[0], &[])
            .unwrap()
            .texts()
            .unwrap()
            .is_empty());
        let scalar = Tensor::new(&[], vec![1u8]).unwrap();
        assert!(scalar.shape().is_empty());
    }

    #[test]
    fn memory_of_an_owner_is_not_copied() {
        let owner: Arc<[u8]> = Arc::from([1u8, 2, 3, 4]);
        let at = owner.as_ptr();
        let t = Tensor::from_owner(Datatype::Fp16, &[2], owner.clone()).unwrap();
        let again = t.clone();
        drop(t);
        assert_eq!(again.bytes().as_ptr(), at);
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(again);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    /// Memory of an owner that lies within it stays where the tensor says.
    #[test]
    fn an_owner_may_be_its_own_memory() {
        let t = Tensor::from_owner(Datatype::Uint8, &[4], [1u8, 2, 3, 4]).unwrap();
        let moved = Box::new(t);
        assert_eq!(moved.bytes(), [1, 2, 3, 4]);
    }

    #[test]
    fn misaligned_memory_is_no_slice() {
        struct Behind(Vec<u8>, usize);
        impl AsRef<[u8]> for Behind {
            fn as_ref(&self) -> &[u8] {
                &self.0[self.1..self.1 + 4]
            }
        }
        let found: Vec<bool> = (0..4)
            .map(|i| Tensor::from_owner(Datatype::Uint32, &[1], Behind(vec![0; 8], i)).unwrap())
            .map(|t| t.as_slice::<u32>().is_ok())
            .collect();
        assert_eq!(found.iter().filter(|&&ok| ok).count(), 1);
    }

    #[test]
    fn what_cannot_be() {
        let refused = [
            Tensor::new(&[2], vec![1u8]),
            Tensor::new(&[-1], vec![1u8]),
            Tensor::new(&[i64::MAX, i64::MAX], vec![1u8]),
            Tensor::from_owner(Datatype::Fp32, &[1], vec![0; 3]),
            Tensor::from_owner(Datatype::Fp32, &[1 << 62], vec![0; 3]),
            Tensor::from_owner(Datatype::Bytes, &[1], vec![0; 3]),
            Tensor::from_owner(Datatype::Bytes, &[1], vec![1, 0, 0, 0]),
            Tensor::from_owner(Datatype::Bytes, &[2], vec![0; 4]),
        ];
        for r in refused {
            assert_eq!(r.unwrap_err().code(), ErrorCode::InvalidArg);
        }
        let t = Tensor::new(&[1], vec![1u32]).unwrap();
        assert!(t.values::<f32>().is_err() && t.as_slice::<i32>().is_err() && t.texts().is_err());
        assert_eq!(
            t.values::<f32>().unwrap_err().to_string(),
            "the tensor is of Uint32, not of Fp32"
        );
    }

    #[test]
    fn datatypes_have_their_numbers() {
        for (i, d) in Datatype::ALL.into_iter().enumerate() {
            assert_eq!(d.raw() as usize, i + 1);
            assert_eq!(Datatype::from_raw(d.raw()), Some(d));
        }
        assert_eq!(Datatype::from_raw(0), None);
        assert_eq!(Datatype::from_raw(15), None);
    }
}
