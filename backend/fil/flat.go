package fil

import (
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/tensor"
)

// real is what a forest computes with.
type real interface{ ~float32 | ~float64 }

// flat is a forest of numerical splits laid out for speed: treelite looks at
// each field of a node in an array of its own and asks at each node what kind
// it is, which takes four times as long. Its answers are treelite's: a forest
// is held to that when it is loaded, and one that is of another kind, or
// answers otherwise, is left to the library.
type flat[T real] struct {
	nodes  []flatNode[T]
	leaves []T // by node
	roots  []flatRoot
	base   []float64
	finish func([]T) // the last step of a row, in place
}

// flatNode is a split: on to left, or to left+1 when the value is not less than
// the threshold. At a leaf, step is 0 and left is the leaf itself, so that rows
// that have arrived stay while others walk on.
type flatNode[T real] struct {
	threshold T
	feature   int32
	left      int32
	step      int32
	missing   int32 // 1: to the right with NaN
}

type flatRoot struct {
	at, depth, output int32
}

// A forest may have so many nodes, since it is kept twice, and so many features,
// since it is tried with rows of them.
const (
	flatNodes    = 1 << 22
	flatFeatures = 1 << 16
)

// Values in treelite's fields.
const (
	kindNumerical = 1
	cmpLess       = 2
	cmpLessEqual  = 3
)

// flatten lays out a forest that inspect has passed, or returns nil.
func flatten[T real](f *forest) *flat[T] {
	g := &flat[T]{}
	if f.features > flatFeatures || !g.header(f) {
		return nil
	}
	for i := range f.trees {
		if !g.tree(f, i) || len(g.nodes) > flatNodes {
			return nil
		}
	}
	if !g.agrees(f) {
		return nil
	}
	return g
}

// header takes over what is common to all trees.
func (g *flat[T]) header(f *forest) bool {
	average, err1 := field[uint8](f.api, f.handle, -1, "average_tree_output")
	name, err2 := field[byte](f.api, f.handle, -1, "postprocessor")
	alpha, err3 := field[float32](f.api, f.handle, -1, "sigmoid_alpha")
	targets, err4 := field[int32](f.api, f.handle, -1, "target_id")
	classes, err5 := field[int32](f.api, f.handle, -1, "class_id")
	scores, err6 := field[float64](f.api, f.handle, -1, "base_scores")
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil {
			return false
		}
	}
	if len(average) != 1 || average[0] != 0 || len(alpha) != 1 || f.targets > 1 && slices.Min(f.classes) != slices.Max(f.classes) {
		return false
	}
	for i := range f.trees {
		if targets[i] < 0 || classes[i] < 0 {
			return false // its leaves have several numbers
		}
		g.roots = append(g.roots, flatRoot{output: targets[i]*int32(f.width) + classes[i]})
	}
	g.base = slices.Clone(scores)
	switch string(name) {
	case "identity", "identity_multiclass":
		g.finish = func([]T) {}
	case "sigmoid":
		k := -float64(alpha[0])
		g.finish = func(row []T) {
			for i, v := range row {
				row[i] = T(1 / (1 + math.Exp(k*float64(v))))
			}
		}
	case "exponential":
		g.finish = func(row []T) {
			for i, v := range row {
				row[i] = T(math.Exp(float64(v)))
			}
		}
	case "softmax":
		if f.targets > 1 {
			return false
		}
		g.finish = softmax[T]
	default:
		return false
	}
	return true
}

func softmax[T real](row []T) {
	most, sum := slices.Max(row), 0.0
	for i, v := range row {
		e := math.Exp(float64(v - most))
		row[i] = T(e)
		sum += e
	}
	for i, v := range row {
		row[i] = T(float64(v) / sum)
	}
}

// tree lays out one tree, level by level: the children of a node are
// neighbours.
func (g *flat[T]) tree(f *forest, tree int) bool {
	kinds, err1 := field[int8](f.api, f.handle, tree, "node_type")
	left, err2 := field[int32](f.api, f.handle, tree, "cleft")
	right, err3 := field[int32](f.api, f.handle, tree, "cright")
	split, err4 := field[int32](f.api, f.handle, tree, "split_index")
	defaults, err5 := field[uint8](f.api, f.handle, tree, "default_left")
	compare, err6 := field[int8](f.api, f.handle, tree, "cmp")
	thresholds, err7 := field[T](f.api, f.handle, tree, "threshold")
	values, err8 := field[T](f.api, f.handle, tree, "leaf_value")
	for _, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
		if err != nil {
			return false
		}
	}
	n := len(left)
	for _, have := range []int{len(kinds), len(right), len(split), len(defaults), len(compare), len(thresholds), len(values)} {
		if have != n {
			return false
		}
	}
	if vector, err := field[T](f.api, f.handle, tree, "leaf_vector"); err != nil || len(vector) > 0 {
		return false
	}
	start := int32(len(g.nodes))
	level, depth := []int32{0}, int32(0)
	g.grow(1)
	at := start
	for ; len(level) > 0; depth++ {
		var next []int32
		for _, node := range level {
			to := &g.nodes[at]
			switch {
			case left[node] == -1:
				to.left, g.leaves[at] = at, values[node]
			case kinds[node] != kindNumerical:
				return false
			default:
				threshold, ok := lessThan(thresholds[node], compare[node])
				if !ok {
					return false
				}
				*to = flatNode[T]{
					threshold: threshold, feature: split[node], left: int32(len(g.nodes)), step: 1,
					missing: 1 - int32(min(1, defaults[node])),
				}
				g.grow(2)
				next = append(next, left[node], right[node])
			}
			at++
		}
		level = next
	}
	g.roots[tree].at, g.roots[tree].depth = start, depth-1
	return true
}

func (g *flat[T]) grow(n int) {
	g.nodes = append(g.nodes, make([]flatNode[T], n)...)
	g.leaves = append(g.leaves, make([]T, n)...)
}

// lessThan turns a comparison into "less than": at most t is less than the
// number that follows t.
func lessThan[T real](t T, operator int8) (T, bool) {
	switch {
	case t != t: //nolint:gocritic // NaN
		return 0, false
	case operator == cmpLess:
		return t, true
	case operator == cmpLessEqual && unsafe.Sizeof(t) == 4:
		return T(math.Nextafter32(float32(t), float32(math.Inf(1)))), !math.IsInf(float64(t), 1)
	case operator == cmpLessEqual:
		return T(math.Nextafter(float64(t), math.Inf(1))), !math.IsInf(float64(t), 1)
	}
	return 0, false
}

// rowsAtOnce is how many rows walk a tree together: each waits for its own node, so
// that the processor has others' to look at meanwhile.
const rowsAtOnce = 4

// stride is after how many levels they look whether all have arrived: trees may
// have one long branch.
const stride = 4

// predict computes rows.
func (g *flat[T]) predict(in []T, features, rows int, out []T) {
	width := len(g.base)
	clear(out[:rows*width])
	nodes, leaves := g.nodes, g.leaves
	for _, root := range g.roots {
		r := 0
		for ; r+rowsAtOnce <= rows; r += rowsAtOnce {
			a, b, c, d := in[r*features:][:features], in[(r+1)*features:][:features], in[(r+2)*features:][:features], in[(r+3)*features:][:features]
			i, j, k, l := root.at, root.at, root.at, root.at
			for left := root.depth; left > 0; left -= stride {
				for range min(stride, left) {
					i, j, k, l = follow(nodes, i, a), follow(nodes, j, b), follow(nodes, k, c), follow(nodes, l, d)
				}
				if nodes[i].step|nodes[j].step|nodes[k].step|nodes[l].step == 0 {
					break
				}
			}
			at := r*width + int(root.output)
			out[at] += leaves[i]
			out[at+width] += leaves[j]
			out[at+2*width] += leaves[k]
			out[at+3*width] += leaves[l]
		}
		for ; r < rows; r++ {
			row, i := in[r*features:][:features], root.at
			for nodes[i].step != 0 {
				i = follow(nodes, i, row)
			}
			out[r*width+int(root.output)] += leaves[i]
		}
	}
	for r := range rows {
		row := out[r*width:][:width]
		for i, score := range g.base {
			row[i] = T(float64(row[i]) + score)
		}
		g.finish(row)
	}
}

func follow[T real](nodes []flatNode[T], at int32, row []T) int32 {
	n := &nodes[at]
	v := row[n.feature]
	var right int32
	if !(v < n.threshold) { //nolint:staticcheck // not the same as >=: NaN
		right = 1
	}
	if v != v { //nolint:gocritic // NaN
		right = n.missing
	}
	return n.left + right&n.step
}

// Rows that a forest is tried with when it is loaded.
const agreeRows = 64

// agrees asks both for rows that are made of the forest's own thresholds, on
// both sides of them, of missing values and of chance.
func (g *flat[T]) agrees(f *forest) bool {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]T, agreeRows*f.features)
	for i := range rows {
		rows[i] = T(random.NormFloat64() * 10)
		if random.IntN(16) == 0 {
			rows[i] = T(math.NaN())
		}
	}
	for i := range agreeRows * min(64, f.features) {
		n := g.nodes[random.IntN(len(g.nodes))]
		v := n.threshold
		if i%2 == 0 {
			v = T(math.Nextafter32(float32(v), float32(math.Inf(-1))))
		}
		rows[random.IntN(agreeRows)*f.features+int(n.feature)] = v
	}
	theirs, ours := make([]T, agreeRows*f.outputs()), make([]T, agreeRows*f.outputs())
	if f.predict(unsafe.Pointer(&rows[0]), agreeRows, unsafe.Pointer(&theirs[0])) != nil {
		return false
	}
	g.predict(rows, f.features, agreeRows, ours)
	for i := range ours {
		a, b := float64(ours[i]), float64(theirs[i])
		if !(math.Abs(a-b) <= 1e-6*max(1, math.Abs(b))) && a != b { // so that NaN does not agree
			return false
		}
	}
	return true
}

// layOut prepares a forest for speed where it can be.
func (f *forest) layOut() {
	if f.datatype == tensor.FP32 {
		f.flat32 = flatten[float32](f)
	} else {
		f.flat64 = flatten[float64](f)
	}
}

// compute computes rows as predict does, the quick way if there is one.
func (f *forest) compute(in unsafe.Pointer, rows int, out unsafe.Pointer) error {
	cells, answers := rows*f.features, rows*f.outputs()
	switch {
	case f.flat32 != nil:
		f.flat32.predict(unsafe.Slice((*float32)(in), cells), f.features, rows, unsafe.Slice((*float32)(out), answers))
	case f.flat64 != nil:
		f.flat64.predict(unsafe.Slice((*float64)(in), cells), f.features, rows, unsafe.Slice((*float64)(out), answers))
	default:
		return f.predict(in, rows, out)
	}
	return nil
}
