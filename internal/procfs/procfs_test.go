package procfs

import (
	"bytes"
	"fmt"
	"testing"
)

// line is what the kernel writes of a process of that name.
func line(name string, rest string) string { return "4711 (" + name + ") " + rest }

const usual = "S 1 4711 4711 0 -1 4194560 1094 0 0 0 3 1 0 0 20 0 1 0 8675309 2359296 189\n"

func TestParseStat(t *testing.T) {
	want := Stat{State: 'S', Parent: 1, Started: 8675309}
	for _, name := range []string{"sleep", "", "a b", ")", "(x) Z 1", ") R 7 7 7 7"} {
		got, err := ParseStat([]byte(line(name, usual)))
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, text := range []string{
		"", "4711", "4711 (sleep", "4711 (sleep)", "4711 (sleep) S", "4711 (sleep) S 1 2 3",
		line("x", "SS"+usual[1:]), line("x", "S -1"+usual[3:]), line("x", "S 99999999999"+usual[3:]), line("x", "S x"+usual[3:]),
		line("x", "S 1 1 1 0 -1 1 1 0 0 0 3 1 0 0 20 0 1 0 -5 1 1\n"),
	} {
		if got, err := ParseStat([]byte(text)); err == nil {
			t.Errorf("%q: got %+v and no error", text, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(line("sleep", usual)))
	f.Add([]byte(line(") R 7 7 7 7", usual)))
	f.Add([]byte("4711 (sleep"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseStat(text)
		if err != nil {
			if got != (Stat{}) {
				t.Errorf("%+v with %v", got, err)
			}
			return
		}
		// The name in front says nothing, whatever it is.
		_, behind, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(")"))
		again, err := ParseStat([]byte(fmt.Sprintf("1 (%s)%s", ") Z 1 (", behind)))
		if err != nil || again != got || got.Parent < 0 {
			t.Errorf("got %+v, and with another name %+v, %v", got, again, err)
		}
	})
}
