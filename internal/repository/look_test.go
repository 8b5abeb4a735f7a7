package repository

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWatch plays looks, one a line: seconds, then name=mark; `name=*` is a
// duplicate, `!` an unreadable repository, `retry:name` a failure that passes.
func TestWatch(t *testing.T) {
	for name, steps := range map[string][][2]string{
		"nothing changes":     {{"10 a=1 b=1", ""}, {"20 a=1 b=1", ""}},
		"a new model settles": {{"10 a=1 b=1 c=1", "again 2"}, {"12 a=1 b=1 c=1", "+c"}, {"20 a=1 b=1 c=1", ""}},
		"a change that goes on waits": {
			{"10 a=2 b=1", "again 2"}, {"12 a=3 b=1", "again 2"}, {"13 a=3 b=1", "again 1"}, {"14 a=3 b=1", "+a"},
		},
		"a change taken back": {{"10 a=2 b=1", "again 2"}, {"12 a=1 b=1", ""}, {"20 a=1 b=1", ""}},
		"a model goes":        {{"10 a=1", "again 2"}, {"12 a=1", "-b"}, {"14 a=1", ""}},
		"a model is replaced": {{"10 a=1", "again 2"}, {"11 a=1 b=2", "again 2"}, {"13 a=1 b=2", "+b"}},
		"gone and back":       {{"10 a=1", "again 2"}, {"12 a=1", "-b"}, {"14 a=1 b=1", "again 2"}, {"16 a=1 b=1", "+b"}},
		"twice": {
			{"10 a=* b=1", "again 2"},
			{"12 a=* b=1", "-a*"},
			{"20 a=* b=1", ""},
			{"30 a=1 b=1", "again 2"},
			{"32 a=1 b=1", "+a"},
		},
		"repository unreadable": {
			{"10 !", ""},
			{"12 !", ""},
			{"20 a=1 b=1", ""},
			{"30 a=2 b=1", "again 2"},
			{"32 !", ""},
			{"34 a=2 b=1", "+a"},
		},
		"what failed comes again":  {{"10 a=2 b=1", "again 2"}, {"12 a=2 b=1", "+a"}, {"20 retry:a a=2 b=1", "+a"}, {"30 a=2 b=1", ""}},
		"two changes, two moments": {{"10 a=2 b=1", "again 2"}, {"11 a=2 b=2", "again 1"}, {"12 a=2 b=2", "+a again 1"}, {"13 a=2 b=2", "+b"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := Watch{Settle: 2 * time.Second}
			_, first := parseLook(t, &w, "0 a=1 b=1")
			w.Prime(first)
			for _, step := range steps {
				now, look := parseLook(t, &w, step[0])
				changes, again := w.Take(now, look)
				var got []string
				for _, c := range changes {
					sign, tail := "+", ""
					if c.Gone {
						sign = "-"
					}
					if c.Duplicate {
						tail = "*"
					}
					got = append(got, sign+c.Name+tail)
				}
				if again > 0 {
					got = append(got, fmt.Sprintf("again %d", again/time.Second))
				}
				if d := cmp.Diff(strings.Join(got, " "), step[1]); d != "" {
					t.Errorf("after %q: got -, want +\n%s", step[0], d)
				}
			}
		})
	}
}

func parseLook(t *testing.T, w *Watch, line string) (time.Time, Look) {
	t.Helper()
	look := Look{Models: map[string]Sighting{}, Failed: map[string]error{}}
	fields := strings.Fields(line)
	seconds, err := time.ParseDuration(fields[0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields[1:] {
		if f == "!" {
			look.Failed["place"] = errors.New("unreadable")
			continue
		}
		if name, ok := strings.CutPrefix(f, "retry:"); ok {
			w.Retry(name)
			continue
		}
		name, mark, _ := strings.Cut(f, "=")
		if mark == "*" {
			look.Models[name] = Sighting{Duplicate: true}
		} else {
			look.Models[name] = Sighting{Path: "place", Mark: mark}
		}
	}
	return time.Unix(0, 0).Add(seconds), look
}
