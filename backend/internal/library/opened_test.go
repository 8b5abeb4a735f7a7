package library

import (
	"errors"
	"runtime"
	"testing"

	"github.com/nesoserve/neso/backend"
)

func TestOpenedOnce(t *testing.T) {
	if runtime.GOOS != "linux" || supported() != nil {
		t.Skip("needs a C library that every machine has: this test names that of Linux")
	}
	c := Spec{Backend: "c", Title: "C", Linux: []string{"libc.so.6"}, Parameter: "c_library"}
	var o Opened[*Library]
	fail, opens := errors.New("too old"), 0
	if _, err := o.Get(&c, Locations{}, func(*Library) (*Library, error) { return nil, fail }); !errors.Is(err, fail) {
		t.Errorf("got %v, want %v", err, fail)
	}
	open := func(l *Library) (*Library, error) { opens++; return l, nil }
	for range 2 { // one that could not be used is tried again, another is not
		if _, err := o.Get(&c, Locations{}, open); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &backend.Config{Directory: t.TempDir(), Parameters: map[string]string{"c_library": "missing.so"}}
	if _, err := o.Get(&c, c.LocationsFor(cfg, backend.Settings{}, nil), open); backend.AsError(err).Code != backend.NotFound {
		t.Errorf("a library that is named and missing: %v", err)
	}
	if opens != 1 {
		t.Errorf("the library was opened %d times", opens)
	}
	o.Close(func(*Library) { opens-- })
	o.Close(func(*Library) { opens-- })
	if opens != 0 {
		t.Errorf("%d libraries are left", opens)
	}
}
