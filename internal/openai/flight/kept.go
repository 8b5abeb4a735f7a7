package flight

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ledger"
)

const (
	// keptFactor is what a reply that grows takes with its JSON, in times of its length.
	keptFactor = 4
	// uncounted is what a reply may have before it counts.
	uncounted = 32 << 10
)

// Kept counts the memory of a reply that grows until it is sent.
type Kept struct {
	Ledger *ledger.Ledger
	Key    *ledger.Share

	bytes int64 // not counted yet
	rooms []ledger.Room
}

// Add counts n bytes more of text, or says that there is no room for them.
func (k *Kept) Add(n int) *backend.Error {
	if k.bytes += keptFactor * int64(n); k.bytes <= uncounted {
		return nil
	}
	room := ledger.Room{By: ledger.Asker{Key: k.Key}, Bytes: k.bytes}
	on, why, ok := k.Ledger.TakeWhole(ledger.Out, room.By, room.Bytes)
	if !ok {
		return k.Ledger.RefusalFor(ledger.Out, why, room.Bytes)
	}
	room.On = on
	k.rooms, k.bytes = append(k.rooms, room), 0
	return nil
}

// Large says that something has been counted.
func (k *Kept) Large() bool { return k.rooms != nil }

// Free gives all back.
func (k *Kept) Free() {
	for _, r := range k.rooms {
		r.Give(k.Ledger)
	}
	k.rooms = nil
}
