package fil

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/nesoserve/neso/tensor"
)

// finish makes the answer of what the forest says: classes, the probabilities
// of both classes, or the same numbers in another datatype.
func (in *instance) finish(s *scratch, out []byte, rows int) {
	f := in.forest
	scores := unsafe.Pointer(unsafe.SliceData(s.out))
	at := func(i int) float64 {
		if f.datatype == tensor.FP32 {
			return float64(*(*float32)(unsafe.Add(scores, 4*i)))
		}
		return s.out[i]
	}
	size := in.output.Size()
	put := func(i int, v float64) { store(out[i*size:], in.output, v) }
	switch {
	case in.options.classes():
		for i := range rows * f.targets {
			put(i, in.class(at, i*f.width, int(f.classes[i%f.targets])))
		}
	case in.columns == 2*f.outputs():
		for i := range rows {
			p := at(i)
			put(2*i, 1-p)
			put(2*i+1, p)
		}
	default:
		for i := range rows * in.columns {
			put(i, at(i))
		}
	}
}

// class is the best of several, or whether the only one is above the threshold.
func (in *instance) class(at func(int) float64, first, n int) float64 {
	if n == 1 {
		if at(first) > in.options.threshold {
			return 1
		}
		return 0
	}
	best := 0
	for i := 1; i < n; i++ {
		if at(first+i) > at(first+best) {
			best = i
		}
	}
	return float64(best)
}

func store(to []byte, d tensor.Datatype, v float64) {
	switch d {
	case tensor.FP32:
		binary.LittleEndian.PutUint32(to, math.Float32bits(float32(v)))
	case tensor.FP64:
		binary.LittleEndian.PutUint64(to, math.Float64bits(v))
	case tensor.Int32:
		binary.LittleEndian.PutUint32(to, uint32(int32(v)))
	default:
		binary.LittleEndian.PutUint64(to, uint64(int64(v)))
	}
}

// convert writes n numbers of one datatype as another one.
func convert(to unsafe.Pointer, as tensor.Datatype, from []byte, is tensor.Datatype, n int) {
	narrow, wide := unsafe.Slice((*float32)(to), n), unsafe.Slice((*float64)(to), n)
	for i := range n {
		var v float64
		if is == tensor.FP32 {
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:])))
		} else {
			v = math.Float64frombits(binary.LittleEndian.Uint64(from[8*i:]))
		}
		if as == tensor.FP32 {
			narrow[i] = float32(v)
		} else {
			wide[i] = v
		}
	}
}
