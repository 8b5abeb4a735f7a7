package segment

import "math/bits"

// Buddy hands out power-of-two blocks of one segment. Memory that a block has
// too much of is never touched, so it costs address space only. It is not safe
// for concurrent use.
//
// The segment is a row of units of MinBlock bytes. A block of order k starts
// at a multiple of 2^k units. Free blocks of an order form a list threaded
// through next and prev; state says what begins at a unit.
type Buddy struct {
	orders int          // order of the whole segment
	heads  [41]int32    // first free block of each order, -1 none
	next   []int32      // by unit
	prev   []int32      // by unit
	state  []blockState // by unit
	used   uint64       // bytes handed out
}

// blockState is 0 where no block begins, else the order + 1 and freeBit.
type blockState uint8

const (
	freeBit  blockState = 0x80
	dirtyBit blockState = 0x40 // free, and its pages may be resident
	minShift            = 14
	// MinBlock is the least block in bytes, 16 KiB: smaller tensors travel in the frame.
	MinBlock = 1 << minShift
)

// NewBuddy manages size bytes, a power of two of at least MinBlock.
func NewBuddy(size uint64) *Buddy {
	units := int(size >> minShift)
	b := &Buddy{orders: bits.Len(uint(units)) - 1, next: make([]int32, units), prev: make([]int32, units), state: make([]blockState, units)}
	for i := range b.heads {
		b.heads[i] = -1
	}
	b.push(0, b.orders, 0)
	return b
}

// OrderFor returns the order of the smallest block of at least n bytes.
func OrderFor(n uint64) int {
	units := (n + MinBlock - 1) >> minShift
	if units <= 1 {
		return 0
	}
	return bits.Len64(units - 1)
}

func (b *Buddy) push(unit int32, order int, dirty blockState) {
	b.state[unit] = blockState(order+1) | freeBit | dirty
	b.prev[unit], b.next[unit] = -1, b.heads[order]
	if h := b.heads[order]; h >= 0 {
		b.prev[h] = unit
	}
	b.heads[order] = unit
}

func (b *Buddy) remove(unit int32, order int) {
	if p := b.prev[unit]; p >= 0 {
		b.next[p] = b.next[unit]
	} else {
		b.heads[order] = b.next[unit]
	}
	if n := b.next[unit]; n >= 0 {
		b.prev[n] = b.prev[unit]
	}
	b.state[unit] = 0
}

// Alloc returns the offset of a block of the order.
func (b *Buddy) Alloc(order int) (uint64, bool) {
	k := order
	for k <= b.orders && b.heads[k] < 0 {
		k++
	}
	if k > b.orders {
		return 0, false
	}
	unit := b.heads[k]
	dirty := b.state[unit] & dirtyBit
	b.remove(unit, k)
	for k > order {
		k--
		b.push(unit+1<<k, k, dirty)
	}
	b.state[unit] = blockState(order + 1)
	b.used += MinBlock << order
	return uint64(unit) << minShift, true
}

// Free takes back the block at offset; false when none was handed out there.
func (b *Buddy) Free(offset uint64) bool {
	if offset&(MinBlock-1) != 0 || offset>>minShift >= uint64(len(b.state)) {
		return false
	}
	unit := int32(offset >> minShift)
	s := b.state[unit]
	if s == 0 || s&freeBit != 0 {
		return false
	}
	order := int(s) - 1
	b.used -= MinBlock << order
	b.state[unit] = 0
	for order < b.orders {
		mate := unit ^ 1<<order
		if b.state[mate]&^dirtyBit != blockState(order+1)|freeBit {
			break
		}
		b.remove(mate, order)
		unit = min(unit, mate)
		order++
	}
	b.push(unit, order, dirtyBit)
	return true
}

// clean calls f for every free block with resident pages and marks it clean.
func (b *Buddy) clean(f func(offset, size uint64)) {
	for order := range b.orders + 1 {
		for unit := b.heads[order]; unit >= 0; unit = b.next[unit] {
			if b.state[unit]&dirtyBit != 0 {
				b.state[unit] &^= dirtyBit
				f(uint64(unit)<<minShift, MinBlock<<order)
			}
		}
	}
}
