package genai

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBeamsCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loaded, freed, broken := 0, 0, errors.New("broken")
		c := beamsCopy{
			load: func() (*network, error) {
				if broken != nil {
					return nil, broken
				}
				loaded++
				return &network{}, nil
			},
			free: func(*network) { freed++ },
		}
		check := func(when string, l, f int) {
			t.Helper()
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			if loaded != l || freed != f {
				t.Errorf("%s: loaded %d times, freed %d times, want %d, %d", when, loaded, freed, l, f)
			}
		}
		take := func() {
			t.Helper()
			if _, err := c.take(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.take(); !errors.Is(err, broken) {
			t.Errorf("a network that does not load: %v", err)
		}
		broken = nil
		take()
		take()
		c.giveBack()
		time.Sleep(2 * stayForBeams)
		check("one of two is still searching", 1, 0)
		c.giveBack()
		time.Sleep(stayForBeams - 1)
		take()
		time.Sleep(2 * stayForBeams)
		check("one came before it was freed", 1, 0)
		c.giveBack()
		time.Sleep(stayForBeams + 1)
		check("the last one ended", 1, 1)
		take()
		c.giveBack()
		check("one comes later", 2, 1)
		c.close()
		c.close()
		check("closed", 2, 2)
		if _, err := c.take(); err == nil {
			t.Error("it can be taken after its end")
		}
	})
}
