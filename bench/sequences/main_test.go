package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sums is the model that the generator asks: running sums by sequence id. It is off by one in the sequences of wrong, and
// refuses those of refused.
type sums struct {
	mu             sync.Mutex
	sums           map[uint64]int64
	wrong, refused uint64
	starts, ends   int
}

func (s *sums) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head, _ := strconv.Atoi(r.Header.Get("Inference-Header-Content-Length"))
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Parameters struct {
			ID    uint64 `json:"sequence_id"`
			Start bool   `json:"sequence_start"`
			End   bool   `json:"sequence_end"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body[:head], &request); err != nil || len(body) != head+8 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	p := request.Parameters
	s.mu.Lock()
	if p.Start {
		s.starts++
		s.sums[p.ID] = 0
	}
	s.sums[p.ID] += int64(binary.LittleEndian.Uint64(body[head:]))
	total := s.sums[p.ID]
	if p.End {
		s.ends++
		delete(s.sums, p.ID)
	}
	s.mu.Unlock()
	switch p.ID {
	case s.refused:
		http.Error(w, `{"error":"no"}`, http.StatusServiceUnavailable)
		return
	case s.wrong:
		total++
	}
	w.Header().Set("Inference-Header-Content-Length", "2")
	_, _ = w.Write(binary.LittleEndian.AppendUint64([]byte("{}"), uint64(total)))
}

func TestSequence(t *testing.T) {
	for _, test := range []struct {
		name           string
		wrong, refused uint64
		answers        int
		wantWrong      int
		wantFailed     int
	}{
		{name: "all right", answers: 12},
		{name: "wrong sums are counted", wrong: 2, answers: 12, wantWrong: 4},
		{name: "an error ends the sequence", refused: 2, answers: 8, wantFailed: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			model := &sums{sums: map[uint64]int64{}, wrong: test.wrong, refused: test.refused}
			server := httptest.NewServer(model)
			defer server.Close()
			l := &client{address: strings.TrimPrefix(server.URL, "http://"), model: "sums", length: 4, ids: new(atomic.Uint64)}
			for range 3 {
				if !l.sequence(l.ids.Add(1)) {
					l.hangUp()
				}
			}
			l.hangUp()
			if len(l.latencies) != test.answers || l.wrong != test.wantWrong || l.failed != test.wantFailed {
				t.Errorf("%d answers, %d wrong, %d failed; want %d, %d, %d", len(l.latencies), l.wrong, l.failed, test.answers, test.wantWrong,
					test.wantFailed)
			}
			if test.refused == 0 && (model.starts != 3 || model.ends != 3 || len(model.sums) != 0) {
				t.Errorf("%d starts, %d ends, %d left", model.starts, model.ends, len(model.sums))
			}
		})
	}
}

func TestRunFinishesWhatItBegan(t *testing.T) {
	model := &sums{sums: map[uint64]int64{}}
	server := httptest.NewServer(model)
	defer server.Close()
	l := &client{address: strings.TrimPrefix(server.URL, "http://"), model: "sums", length: 5, ids: new(atomic.Uint64)}
	l.run(time.Now().Add(20 * time.Millisecond))
	if len(model.sums) != 0 || model.starts != model.ends || len(l.latencies) != 5*model.starts || l.wrong+l.failed != 0 {
		t.Errorf("%d starts, %d ends, %d answers, %d wrong, %d failed", model.starts, model.ends, len(l.latencies), l.wrong, l.failed)
	}
}

func TestRunGivesUpWhenNobodyListens(t *testing.T) {
	// A port that had been free a moment ago may be another program's by now.
	l := &client{address: "127.0.0.1:1", model: "sums", length: 5, ids: new(atomic.Uint64)}
	l.run(time.Now().Add(time.Hour))
	if l.failed != 1 || len(l.latencies) != 0 {
		t.Errorf("%d failed, %d answers", l.failed, len(l.latencies))
	}
}

func TestRunGoesOnAfterAFailure(t *testing.T) {
	model := &sums{sums: map[uint64]int64{}, refused: 1}
	server := httptest.NewServer(model)
	defer server.Close()
	l := &client{address: strings.TrimPrefix(server.URL, "http://"), model: "sums", length: 2, ids: new(atomic.Uint64)}
	for end := time.Now().Add(time.Minute); len(l.latencies) == 0 && time.Now().Before(end); {
		l.run(time.Now().Add(time.Millisecond))
	}
	if l.failed != 1 || len(l.latencies) == 0 {
		t.Errorf("%d failed, %d answers", l.failed, len(l.latencies))
	}
}
