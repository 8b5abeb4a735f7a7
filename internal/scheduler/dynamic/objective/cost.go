package objective

import (
	"math"
	"math/bits"
)

const (
	// memory is what is left of the weight of a batch after the next one: some ten
	// batches count, so that a cost that changes is known after as many.
	memory = 0.9
	// doubt is the weight of the line beside what batches of one size took.
	doubt = 2.0
	// exactSizes have a place each; above it an octave has perOctave.
	exactSizes = 32
	perOctave  = 8
	// flat is how little sizes may vary, relative to their mean squared, for a line
	// through them to say nothing.
	flat = 0.01
)

// costs is what batches took, by size. The last ones count most.
type costs struct {
	batches uint64
	tried   int // the largest size so far
	// Weighted sums over the batches: of one, size, size², time and size·time.
	one, x, xx, y, xy float64
	sizes             []sizeCost
}

// sizeCost is what batches of about one size took.
type sizeCost struct {
	mean, weight float64
	last         uint64 // the number of the last batch
}

// sizeClass is the index of the statistics that batches of a size share.
func sizeClass(size int) int {
	if size <= exactSizes {
		return size
	}
	octave := bits.Len(uint(size)) - bits.Len(exactSizes)
	within := size >> octave // exactSizes to 2*exactSizes-1
	return exactSizes + octave*perOctave + (within-exactSizes)*perOctave/exactSizes + 1
}

// learn says that a batch took so many ns.
func (c *costs) learn(size int, took int64) {
	if size <= 0 || took < 0 {
		return
	}
	c.batches++
	c.tried = max(c.tried, size)
	n, t := float64(size), float64(took)
	c.one, c.x, c.xx = c.one*memory+1, c.x*memory+n, c.xx*memory+n*n
	c.y, c.xy = c.y*memory+t, c.xy*memory+n*t
	i := sizeClass(size)
	for len(c.sizes) <= i {
		c.sizes = append(c.sizes, sizeCost{})
	}
	s := &c.sizes[i]
	s.weight = s.faded(c.batches)*memory + 1
	s.mean += (t - s.mean) / s.weight
	s.last = c.batches
}

// faded is the weight after the batches that came since.
func (s *sizeCost) faded(batches uint64) float64 {
	if s.weight == 0 {
		return 0
	}
	return s.weight * math.Pow(memory, float64(batches-s.last))
}

// of returns how long a batch of this size takes, in ns; 0 while nothing is known.
func (c *costs) of(size int) int64 {
	if c.one == 0 {
		return 0
	}
	line := c.line(float64(size))
	i := sizeClass(size)
	if i >= len(c.sizes) {
		return int64(line)
	}
	s := &c.sizes[i]
	w := s.faded(c.batches)
	return int64((w*s.mean + doubt*line) / (w + doubt))
}

// line is the straight line through the times of the last batches, of all sizes. Where
// their sizes are all alike it grows as if each request took the same, which is the most
// that a batch can cost.
func (c *costs) line(size float64) float64 {
	x, y := c.x/c.one, c.y/c.one
	spread := c.xx/c.one - x*x
	if spread <= flat*x*x {
		return y * max(1, size/x)
	}
	slope := max(0, (c.xy/c.one-x*y)/spread)
	start := y - slope*x
	if start < 0 {
		return y * size / x
	}
	return start + slope*size
}
