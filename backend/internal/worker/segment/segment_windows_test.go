package segment

import (
	"testing"

	"golang.org/x/sys/windows"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// TestReadOnly: who is lent a segment can read it, and neither map it to write nor get a
// handle by which that could be done.
func TestReadOnly(t *testing.T) {
	s, err := New(wire.FirstOutputSegment, 1<<16, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lent, err := s.ReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	defer lent.Close()
	data, err := Map(lent, 1<<16, false)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(data)
	s.Data()[100] = 7
	if data[100] != 7 {
		t.Error("the mapping shows other memory")
	}
	if data, err := Map(lent, 1<<16, true); err == nil {
		Unmap(data)
		t.Error("the segment can be mapped to write")
	}
	raw, err := lent.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	self := windows.CurrentProcess()
	_ = raw.Control(func(fd uintptr) {
		for _, access := range []uint32{windows.FILE_MAP_WRITE, windows.FILE_MAP_WRITE | windows.FILE_MAP_READ, windows.GENERIC_ALL} {
			var more windows.Handle
			if err := windows.DuplicateHandle(self, windows.Handle(fd), self, &more, access, false, 0); err == nil {
				_ = windows.CloseHandle(more)
				t.Errorf("a handle with access %#x was had of one to read", access)
			}
		}
	})
}

// TestMapTooMuch: a mapping cannot be larger than its segment, nor be none.
func TestMapTooMuch(t *testing.T) {
	s, err := New(0, 1<<16, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, size := range []int{1 << 20, 0, -1} {
		if data, err := Map(s.File(), size, false); err == nil {
			Unmap(data)
			t.Errorf("%d bytes were mapped of %d", size, 1<<16)
		}
	}
}

// TestHeldAfterEnd: a worker that keeps a segment when it has ended for the server has its
// memory to itself.
func TestHeldAfterEnd(t *testing.T) {
	s, err := New(0, 1<<16, true)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Map(s.File(), 1<<16, true)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(kept)
	s.Data()[0] = 1
	s.Close()
	s, err = New(0, 1<<16, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept[0], kept[1] = 2, 3
	if s.Data()[0] != 0 || s.Data()[1] != 0 {
		t.Errorf("a new segment shows what was written to an old one: %v", s.Data()[:2])
	}
}
