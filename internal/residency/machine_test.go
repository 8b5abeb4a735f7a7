package residency

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/internal/setting"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// player plays one transcript: reads end at once, all else by events.
type player struct {
	t        *testing.T
	m        *Machine
	now      time.Duration
	next     uint64
	sketches map[string]Sketch
	looks    map[string]Look
	out      *bytes.Buffer
}

// TestTranscripts plays testdata/*.txt, with these events:
//
//	machine [limit=N] [loads=N] [waiting=N] [stay=D] [patience=D]
//	model NAME [bytes=N] [parts=A,B] [pin] [idle=D] [priority=N]     what reading it shows
//	at TIME                       it is that late; nothing else happens
//	want NAME [by=CALLER]         a request waits; ids count from 1
//	ask NAME                      somebody loads it by the API
//	leave ID NAME                 the request is gone
//	loaded NAME [bytes=N]         a load has ended well
//	failed NAME [in=A,B]          or not
//	unloaded NAME                 an eviction has ended
//	kept NAME                     or was not possible
//	busy NAME, idle NAME          it has requests, or none since now
//	out NAME                      unloaded by the API
//	sync [NAME...]                what is in, whoever has loaded it
//	show NAME                     how it is
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) string {
		var out bytes.Buffer
		p := &player{t: t, out: &out}
		return transcript.Events(script, &out, p.event)
	})
}

func (p *player) event(words []string) {
	name := ""
	if len(words) > 1 {
		name = words[1]
	}
	o := transcript.Options(words[1:])
	now := int64(p.now)
	switch words[0] {
	case "machine":
		p.m = New(Settings{
			Limit: int64(transcript.Number(o["limit"], 0)), Loads: transcript.Number(o["loads"], 1),
			Waiting: transcript.Number(o["waiting"], 100), LeastStay: transcript.Duration(o["stay"]), Patience: transcript.Duration(o["patience"]),
			Words: setting.Options,
		})
		p.now, p.next, p.sketches, p.looks = 0, 0, map[string]Sketch{}, map[string]Look{}
		return
	case "model":
		s := Sketch{Name: name, Bytes: int64(transcript.Number(o["bytes"], 0))}
		if o["parts"] != "" {
			s.Parts = strings.Split(o["parts"], ",")
		}
		_, s.Traits.Pin = o["pin"]
		s.Traits.Idle, s.Traits.Priority = transcript.Duration(o["idle"]), transcript.Number(o["priority"], 0)
		p.sketches[name] = s
		return
	case "at":
		p.now = transcript.Duration(name)
	case "want":
		p.next++
		if err := p.m.Want(now, p.next, name, o["by"]); err != nil {
			fmt.Fprintf(p.out, "  refused: %v\n", err)
		}
	case "ask":
		p.next++
		p.m.Ask(now, p.next, name)
	case "leave":
		p.m.Leave(uint64(transcript.Number(name, 0)), words[2])
	case "loaded":
		p.m.Loaded(now, name)
		p.looks[name] = Look{Bytes: int64(transcript.Number(o["bytes"], int(p.sketches[name].Bytes))), Used: now}
		for _, part := range p.sketches[name].Parts {
			if _, there := p.looks[part]; !there {
				p.looks[part] = Look{Bytes: p.sketches[part].Bytes, Used: now}
			}
		}
	case "failed":
		p.m.Failed(now, name, errors.New("it is broken"), func(one string) bool { return slices.Contains(strings.Split(o["in"], ","), one) })
	case "unloaded":
		p.m.Unloaded(name)
		delete(p.looks, name)
	case "kept":
		p.m.Kept(name)
	case "busy", "idle":
		l := p.looks[name]
		l.Busy, l.Used = words[0] == "busy", now
		p.looks[name] = l
	case "out":
		p.m.TakeOut(name)
	case "sync":
		var in []Resident
		for _, one := range words[1:] {
			s := p.sketches[one]
			in = append(in, Resident{Name: one, Parts: s.Parts, Traits: s.Traits})
			if _, there := p.looks[one]; !there {
				p.looks[one] = Look{Bytes: s.Bytes, Used: now}
			}
		}
		p.m.Sync(now, in)
	case "show":
		s := p.m.Standing(name)
		fmt.Fprintf(p.out, "  %s, %s, %d bytes, %d waiting\n", s.State, s.Why, s.Bytes, s.Waiting)
		return
	default:
		p.t.Fatalf("unknown event %q", words)
	}
	p.step()
}

func (p *player) step() {
	for again := true; again; {
		again = false
		actions, next := p.m.Step(int64(p.now), func(name string) Look { return p.looks[name] })
		for _, a := range actions {
			switch a.Kind {
			case Read:
				var all []Sketch
				for _, member := range p.closure(a.Name) {
					all = append(all, p.sketches[member])
				}
				p.m.Read(a.Name, all)
				again = true
			case Load:
				fmt.Fprintf(p.out, "  load %s\n", a.Name)
			case Evict:
				fmt.Fprintf(p.out, "  evict %s: %s\n", a.Name, a.Why)
			case Answer:
				for range a.Waiters {
					if a.Err == nil {
						p.m.Came(a.Name)
						again = true
					}
				}
				text := "it is in"
				if a.Err != nil {
					text = a.Err.Error()
				}
				fmt.Fprintf(p.out, "  tell %v of %s: %s\n", a.Waiters, a.Name, text)
			}
		}
		if next != 0 && !again {
			fmt.Fprintf(p.out, "  again at %s\n", time.Duration(next))
		}
	}
}

func (p *player) closure(name string) []string {
	all := []string{name}
	for i := 0; i < len(all); i++ {
		for _, part := range p.sketches[all[i]].Parts {
			if !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	return all
}

// The moves that are not allowed panic, those that are do not.
func TestMoves(t *testing.T) {
	for from := range states {
		for to := range states {
			func() {
				defer func() {
					if refused := recover() != nil; refused == moves[from][to] {
						t.Errorf("from %s to %s: refused %t", from, to, refused)
					}
				}()
				e := &entry{state: from}
				New(Settings{}).move(e, to, Never)
			}()
		}
	}
}

func TestPausesAreBounded(t *testing.T) {
	for n, want := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 1000: time.Minute} {
		if got := pause(n); got != want {
			t.Errorf("pause after %d failures: %s, want %s", n, got, want)
		}
	}
}

// TestEvictionsThatAreNone: what could not leave has not been evicted.
func TestEvictionsThatAreNone(t *testing.T) {
	m := New(Settings{Limit: 100})
	m.Sync(1, []Resident{{Name: "a"}, {Name: "b"}})
	look := func(string) Look { return Look{Bytes: 60} }
	for range 2 {
		if actions, _ := m.Step(2, look); len(actions) != 1 || actions[0].Kind != Evict || actions[0].Name != "a" {
			t.Fatalf("got %+v", actions)
		}
		m.Kept("a")
	}
	if n := m.Totals().EvictedForMemory; n != 0 {
		t.Errorf("%d evictions, want none", n)
	}
	_, _ = m.Step(3, look)
	m.Unloaded("a")
	if n := m.Totals().EvictedForMemory; n != 1 {
		t.Errorf("%d evictions, want 1", n)
	}
}
