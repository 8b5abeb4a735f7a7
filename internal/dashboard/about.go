package dashboard

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/procfs"
)

// about says what the page has to know of the server.
func (s *Server) about(w http.ResponseWriter, r *http.Request) {
	caller, ok := s.o.API.Admit(w, r, auth.Inspect)
	if !ok {
		return
	}
	use := s.mayUse(r)
	about := struct {
		Version string `json:"version"`
		Keys    bool   `json:"keys"`
		Use     bool   `json:"use"`
		// Manage says that the caller may load and unload, as far as is known here.
		Manage bool   `json:"manage"`
		OpenAI bool   `json:"openai"`
		Mode   string `json:"mode"`
		Host   string `json:"host,omitempty"`
		Port   int    `json:"port,omitempty"`
		TLS    bool   `json:"tls"`
	}{
		Version: s.o.Version, Keys: s.o.Keys, Use: use, OpenAI: s.o.API.OpenAI(), Mode: s.o.Engine.ControlMode(),
		Manage: use && (s.o.Engine.ControlMode() == "explicit" || s.o.Engine.ControlMode() == "on-demand") && caller.Can(auth.Control),
	}
	if tcp, ok := s.o.HTTP.(*net.TCPAddr); ok {
		if about.Port, about.TLS = tcp.Port, s.o.TLS; !tcp.IP.IsUnspecified() {
			about.Host = tcp.IP.String()
		}
	}
	reply(w, about)
}

// chats says which models OpenAI's routes offer for what; null where there are no such
// routes.
func (s *Server) chats(w http.ResponseWriter, r *http.Request) {
	caller, ok := s.o.API.Admit(w, r, auth.Inspect)
	if !ok {
		return
	}
	if !s.o.API.OpenAI() {
		reply(w, nil)
		return
	}
	offered := s.o.API.Offered(caller)
	reply(w, struct {
		Chat       []string `json:"chat"`
		Completion []string `json:"completion"`
		Embedding  []string `json:"embedding"`
	}{offered.Chats, offered.Completions, offered.Embeddings})
}

// machine follows what the process of the server uses. Only the sampler's loop has
// it.
type machine struct {
	at  time.Time
	cpu time.Duration
}

// serverState is the server in a frame.
type serverState struct {
	Version string `json:"version"`
	// Started is when the dashboard was made, which tells one run of the server from
	// the next.
	Started int64  `json:"started"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	// CPU is how many processors the server's process has kept busy, workers not
	// included.
	CPU        float64     `json:"cpu"`
	Processors int         `json:"processors"`
	Memory     uint64      `json:"memory"`
	Cache      *cacheState `json:"cache,omitempty"`
	GPUs       []gpuState  `json:"gpus,omitempty"`
}

type cacheState struct {
	Entries int    `json:"entries"`
	Used    int64  `json:"used"`
	Size    int64  `json:"size"`
	Local   bool   `json:"local"`
	Hits    uint64 `json:"hits"`
	Misses  uint64 `json:"misses"`
}

type gpuState struct {
	ID    string  `json:"id"`
	Busy  float64 `json:"busy"`
	Used  float64 `json:"used"`
	Total float64 `json:"total"`
	Power float64 `json:"power"`
}

// state looks at the server apart from its models.
func (s *Server) state(now time.Time) []byte {
	st := serverState{Version: s.o.Version, Started: s.started.UnixMilli(), Processors: runtime.NumCPU()}
	if err := s.o.Engine.Ready(); err != nil {
		st.Reason = err.Error()
	} else {
		st.Ready = true
	}
	if used, err := procfs.UsedBy(os.Getpid()); err == nil {
		st.Memory = used.Resident
		if m := &s.machine; !m.at.IsZero() && now.After(m.at) {
			st.CPU = rounded((used.CPU - m.cpu).Seconds() / now.Sub(m.at).Seconds())
		}
		s.machine = machine{now, used.CPU}
	}
	if s.o.Cache != nil {
		n := s.o.Cache()
		st.Cache = &cacheState{n.Entries, n.Used, n.Size, n.Local, n.Hits, n.Misses}
	}
	if s.o.GPUs != nil {
		st.GPUs = gpuStates(s.o.GPUs())
	}
	text, err := json.Marshal(&st)
	if err != nil {
		return []byte("null") // what a driver says may be no number
	}
	return text
}

func gpuStates(all []gpu.Reading) []gpuState {
	states := make([]gpuState, len(all))
	for i, g := range all {
		states[i] = gpuState{g.UUID, rounded(g.Utilization), rounded(g.MemoryUsed), rounded(g.MemoryTotal), rounded(g.PowerUsage)}
	}
	return states
}
