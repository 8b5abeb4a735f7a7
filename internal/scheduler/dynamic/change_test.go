package dynamic

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// What waits runs on the instances that come, more at once than there were
// instances at first; one that leaves is given nothing and ends with its batch.
func TestInstancesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{instances: 1, took: taking(time.Second)}
		b := start(t, f, 1, modelconfig.DynamicBatching{})
		f.instances = 16
		for i := range 20 {
			b.send(fmt.Sprintf("%02d", i), func(r *infer.Request) { r.Background = true })
		}
		var left []int
		note := func(i int) { left = append(left, i) }
		var come []int
		for i := 1; i < 16; i++ {
			come = append(come, i)
		}
		b.Change(come, []int{0}, note)
		synctest.Wait()
		if f.mu.Lock(); len(f.batches) != 16 || left != nil {
			t.Errorf("%d batches run, %v have left", len(f.batches), left)
		}
		f.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(left, []int{0}) {
			t.Errorf("%v have left", left)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.Change([]int{0}, []int{14, 15}, note) // they run nothing
		if !slices.Equal(left, []int{0, 14, 15}) {
			t.Errorf("%v have left", left)
		}
		for i := range 16 {
			b.send("x"+fmt.Sprint(i), func(r *infer.Request) { r.Background = true })
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.log.mu.Lock()
		if n := len(b.log.lines); n != 36 {
			t.Errorf("%d answers", n)
		}
		b.log.mu.Unlock()
		b.end()
	})
}
