package tensor

import "fmt"

// GPU is the UUID of a GPU: what every process knows it by, whatever number it
// gives it.
type GPU = [16]byte

// DeviceMemory is memory of a GPU that the server shares with its workers. A
// tensor lies in it when the Arena of its buffer's Region is one: then Data is
// nil, and the Region's Offset says where the elements begin. Code that does not
// know of it finds no bytes and refuses the tensor, and never takes others for
// them; so only those who have said that they take such tensors are given any.
type DeviceMemory interface {
	// GPU says on which device the memory lies.
	GPU() GPU
	// ToHost fills dst with what begins at offset. It returns when the copy is
	// complete.
	ToHost(dst []byte, offset uint64) error
}

// Device returns the memory of a GPU that the tensor lies in, or nil.
func (t *Tensor) Device() DeviceMemory {
	if len(t.Data) != 0 || t.Buffer == nil {
		return nil
	}
	m, _ := t.Buffer.region.Arena.(DeviceMemory)
	return m
}

// OnDevice reports whether the tensor lies in memory of a GPU.
func (t *Tensor) OnDevice() bool { return t.Device() != nil }

// Size returns how many bytes the elements have, wherever they lie.
func (t *Tensor) Size() int {
	if len(t.Data) == 0 && t.OnDevice() {
		n, _ := ByteSize(t.Datatype, t.Shape) // it was checked when the tensor was made
		return int(n)
	}
	return len(t.Data)
}

// ToHost brings a tensor on a GPU to memory from a, nil for the garbage
// collector's: its reference on the old buffer is dropped for one on the new. A
// tensor that lies elsewhere stays as it is, and so does one that an error is
// returned for.
func (t *Tensor) ToHost(a Allocator) error {
	m := t.Device()
	if m == nil {
		return nil
	}
	size := t.Size()
	var b *Buffer
	if a != nil {
		var err error
		if b, err = a.Allocate(size); err != nil {
			return fmt.Errorf("failed to bring tensor '%s' from the GPU: %w", t.Name, err)
		}
	} else {
		b = NewBuffer(make([]byte, size), nil)
	}
	if err := m.ToHost(b.Bytes(), t.Buffer.region.Offset); err != nil {
		b.Release()
		return fmt.Errorf("failed to bring tensor '%s' from the GPU: %w", t.Name, err)
	}
	old := t.Buffer
	t.Buffer, t.Data = b, b.Bytes()
	old.Release()
	return nil
}
