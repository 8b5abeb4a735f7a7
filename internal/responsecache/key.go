package responsecache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Key names one answer. It is a SHA-256 over everything that the answer can
// depend on. Nothing is compared after a look-up, so the hash has to hold
// against clients that look for collisions to hand each other wrong answers: a
// fast hash of 64 or 128 bits does not, and comparing would mean to keep the
// inputs too. It is stable, since servers share a store.
type Key [sha256.Size]byte

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Identity stands for all that makes a model answer as it does: two loads with
// equal identities give equal answers to equal requests.
type Identity [sha256.Size]byte

// NewIdentity returns an identity that no other load has, in this process or
// another.
func NewIdentity() (id Identity) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// Subject is what a key is made of besides the request's own fields.
type Subject struct {
	// Identity of the model, for an ensemble with those of its steps in it.
	Identity Identity
	Name     string
	Version  int64
	// Wanted tells for each output of the model whether the client gets it.
	Wanted []bool
	// Order lists the request's inputs in the configuration's order. The request's
	// own order may be another.
	Order []int
}

const (
	// keyVersion is part of each key: a change of what is hashed makes old entries
	// unreachable.
	keyVersion = 1
	// small is up to what size an input is copied into the hasher's scratch: one
	// call over contiguous bytes is cheaper than several.
	small = 4 << 10
	// keepScratch is the largest scratch that goes back into the pool.
	keepScratch = 256 << 10
)

type hasher struct {
	h       hash.Hash
	scratch []byte
	long    bool // h has been given the scratch so far
}

var hashers = sync.Pool{New: func() any { return &hasher{h: sha256.New()} }}

// NewKey returns the key of a request, which has been checked and normalized
// (model.Infer). Part of it are the subject, datatype, shape and bytes of each
// input, the custom parameters, and correlation id and flags; not the request's
// id, priority and timeout, which say how it is served.
func NewKey(s *Subject, r *backend.Request) Key {
	x := hashers.Get().(*hasher)
	x.scratch, x.long = x.scratch[:0], false
	x.subject(s)
	x.number(r.Correlation.Number)
	x.text(r.Correlation.Text)
	x.number(uint64(r.Flags))
	x.parameters(r.Parameters)
	x.number(uint64(len(s.Order)))
	for _, i := range s.Order {
		x.tensor(&r.Inputs[i])
	}
	k := x.sum()
	if cap(x.scratch) <= keepScratch {
		hashers.Put(x)
	}
	return k
}

func (x *hasher) subject(s *Subject) {
	x.scratch = append(x.scratch, keyVersion)
	x.scratch = append(x.scratch, s.Identity[:]...)
	x.text(s.Name)
	x.number(uint64(s.Version))
	x.number(uint64(len(s.Wanted)))
	for _, w := range s.Wanted {
		b := byte(0)
		if w {
			b = 1
		}
		x.scratch = append(x.scratch, b)
	}
}

// parameters hashes them in the order of the request: another order makes
// another key, which costs a miss and no wrong answer.
func (x *hasher) parameters(all []backend.Parameter) {
	x.number(uint64(len(all)))
	for _, p := range all {
		x.text(p.Name)
		x.scratch = append(x.scratch, byte(p.Kind))
		switch p.Kind {
		case backend.StringParameter:
			x.text(p.Text())
		case backend.DoubleParameter:
			x.number(math.Float64bits(p.Float64()))
		default:
			x.number(p.Uint64())
		}
	}
}

// tensor hashes all of it; lengths stand before what they count, so that no
// two different lists of tensors give the same bytes.
func (x *hasher) tensor(t *tensor.Tensor) {
	x.text(t.Name)
	x.scratch = append(x.scratch, byte(t.Datatype))
	x.number(uint64(len(t.Shape)))
	for _, d := range t.Shape {
		x.number(uint64(d))
	}
	x.number(uint64(len(t.Data)))
	if len(t.Data) <= small {
		x.scratch = append(x.scratch, t.Data...)
		return
	}
	if !x.long {
		x.h.Reset()
		x.long = true
	}
	x.h.Write(x.scratch)
	x.h.Write(t.Data)
	x.scratch = x.scratch[:0]
}

func (x *hasher) number(n uint64) { x.scratch = binary.LittleEndian.AppendUint64(x.scratch, n) }

func (x *hasher) text(s string) {
	x.number(uint64(len(s)))
	x.scratch = append(x.scratch, s...)
}

func (x *hasher) sum() (k Key) {
	if !x.long {
		return sha256.Sum256(x.scratch)
	}
	x.h.Write(x.scratch)
	x.scratch = x.h.Sum(x.scratch[:0])
	copy(k[:], x.scratch)
	return k
}
