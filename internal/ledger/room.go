package ledger

// Room is what has been counted with TakeWhole: how many bytes, on which page and
// for whom. The zero Room holds nothing.
type Room struct {
	On    Page
	By    Asker
	Bytes int64
}

// Extend counts n bytes more, or says that there is no room for them; see
// Ledger.Extend.
func (r *Room) Extend(l *Ledger, n int64) bool {
	on, ok := l.Extend(r.On.main(), r.On, r.By, r.Bytes, n)
	if ok {
		r.On = on
		r.Bytes += n
	}
	return ok
}

// Shrink gives n bytes of it back.
func (r *Room) Shrink(l *Ledger, n int64) {
	l.GiveWhole(r.On, r.By, n)
	r.Bytes -= n
}

// Give gives it back.
func (r Room) Give(l *Ledger) {
	if r.Bytes > 0 {
		l.GiveWhole(r.On, r.By, r.Bytes)
	}
}
