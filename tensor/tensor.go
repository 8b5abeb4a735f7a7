package tensor

// Tensor is a named, typed view of memory. Copying a Tensor copies the view,
// not the bytes, and takes no reference.
type Tensor struct {
	Name     string
	Datatype Datatype
	// Shape includes the batch dimension where the model batches.
	Shape Shape
	// Data holds the elements, little-endian and row-major, without padding.
	// For Bytes each element is a uint32 length followed by that many bytes. It is
	// nil when they lie on a GPU, see DeviceMemory: that is for Python workers only.
	Data []byte
	// Buffer owns the memory of Data, which lies inside Buffer.Bytes(). It is nil
	// for memory that the garbage collector owns.
	Buffer *Buffer
}

// Retain takes a reference on the tensor's memory.
func (t *Tensor) Retain() {
	if t.Buffer != nil {
		t.Buffer.Retain()
	}
}

// Release drops the tensor's reference and forgets the memory.
func (t *Tensor) Release() {
	b := t.Buffer
	t.Buffer, t.Data = nil, nil
	b.Release()
}

// View returns the same memory under another shape, with no new reference.
func (t Tensor) View(s Shape) Tensor {
	t.Shape = s
	return t
}
