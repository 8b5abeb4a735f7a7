package lifecycle

import (
	"runtime"
	"testing"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/nesotest"
)

// TestNobodyHasWhatIsEvicted: a request that finds a model just as it is to leave keeps it
// in, or does not get it: it may begin a sequence, which nobody would know of then.
func TestNobodyHasWhatIsEvicted(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/x": ""})
	m := start(t, of(top), &nesotest.Echo{Name: "echo"})
	for range 300 {
		mustLoad(t, m, Request{Name: "a"})
		got, begin := make(chan *model.Model), make(chan struct{})
		go func() {
			<-begin
			for range 20 {
				runtime.Gosched()
				if v := m.Pin("a", -1); v != nil {
					got <- v
					return
				}
			}
			got <- nil
		}()
		close(begin)
		runtime.Gosched()
		err := m.Evict(t.Context(), "a")
		v := <-got
		if v == nil {
			continue
		}
		if err == nil {
			v.Unpin()
			t.Fatal("a model has been evicted that a request has")
		}
		if !m.ServesNow("a") {
			t.Fatal("a model that was not evicted does not serve:", err)
		}
		v.Unpin()
		if again := m.Pin("a", -1); again != v {
			t.Fatal("a model that was not evicted is not the same")
		}
		v.Unpin()
		if err := m.Evict(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
}
