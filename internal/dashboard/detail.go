package dashboard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/procfs"
	"github.com/nesoserve/neso/internal/stats"
)

// detail is one version of a model in full, made when it is asked for.
type detail struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	State   string  `json:"state"`
	Reason  string  `json:"reason,omitempty"`
	Load    float64 `json:"load"` // s
	// Given is the model's configuration file, File its name; Config what the server
	// has made of it, with Steps for an ensemble.
	File      string          `json:"file,omitempty"`
	Given     string          `json:"given,omitempty"`
	Config    string          `json:"config,omitempty"`
	JSON      json.RawMessage `json:"json,omitempty"`
	Instances []instanceState `json:"instances,omitempty"`
	Batches   []batchState    `json:"batches,omitempty"`
}

// instanceState is an instance with its worker; CPU is what that has used, in
// seconds.
type instanceState struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Device  int     `json:"device"`
	Passive bool    `json:"passive,omitempty"`
	Batches int     `json:"batches"`
	Down    bool    `json:"down,omitempty"`
	Fails   bool    `json:"fails,omitempty"`
	Took    float64 `json:"took"`
	Process int     `json:"process,omitempty"`
	Memory  uint64  `json:"memory,omitempty"`
	CPU     float64 `json:"cpu,omitempty"`
	Threads int     `json:"threads,omitempty"`
}

// batchState is what executions of one batch size took on average, in milliseconds.
type batchState struct {
	Size   int     `json:"size"`
	Count  uint64  `json:"count"`
	Input  float64 `json:"input"`
	Infer  float64 `json:"infer"`
	Output float64 `json:"output"`
}

// model answers with the versions of a model. Its name comes as a parameter: a path
// does not have all names that models can have.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	caller, ok := s.o.API.Admit(w, r, auth.Observe)
	if !ok {
		return
	}
	name := r.URL.Query().Get("name")
	if err := caller.May(auth.Observe, name); err != nil {
		s.refuse(w, http.StatusForbidden, err.Message)
		return
	}
	configs := !s.o.NoConfigs
	all := []detail{}
	for _, v := range s.o.Engine.Standings(name) {
		all = append(all, s.detailOf(&v, configs))
	}
	if name == "" || len(all) == 0 {
		s.refuse(w, http.StatusNotFound, "no model '"+name+"' is loaded, or was")
		return
	}
	reply(w, all)
}

func (s *Server) detailOf(v *engine.Standing, configs bool) detail {
	d := detail{Name: v.Name, State: v.State, Reason: v.Reason}
	if v.Version.Version > 0 {
		d.Version = strconv.FormatInt(v.Version.Version, 10)
	}
	m := v.Model
	if m == nil {
		return d
	}
	d.Load = rounded(v.LoadTime.Seconds())
	if configs {
		file, given := s.o.Engine.Given(m)
		if utf8.Valid(given) {
			d.File, d.Given = file, string(given)
		}
		d.Config, d.JSON = string(m.Config().Text()), m.Config().JSON()
	} else {
		d.JSON = stepsOf(m.Config())
	}
	for _, st := range m.InstanceStandings() {
		in := instanceState{
			Name: st.Name, Kind: st.Kind, Device: st.Device, Passive: st.Passive, Batches: st.Batches, Down: st.Down, Fails: st.Fails,
			Took: milliseconds(st.Took), Process: st.Process, Memory: st.Memory,
		}
		if st.Process > 0 {
			if used, err := procfs.UsedBy(st.Process); err == nil {
				in.CPU, in.Threads, in.Memory = used.CPU.Seconds(), used.Threads, used.Resident
			}
		}
		d.Instances = append(d.Instances, in)
	}
	numbers := m.Stats().Snapshot()
	for _, b := range numbers.Batches {
		d.Batches = append(d.Batches, batchState{
			Size: b.Size, Count: b.ComputeInfer.Count, Input: mean(b.ComputeInput), Infer: mean(b.ComputeInfer), Output: mean(b.ComputeOutput),
		})
	}
	return d
}

// stepsOf are the steps of an ensemble, for callers that do not see configurations.
func stepsOf(c *modelconfig.Config) json.RawMessage {
	if c.Ensemble == nil {
		return nil
	}
	var all struct {
		Ensemble json.RawMessage `json:"ensemble_scheduling"`
	}
	if json.Unmarshal(c.JSON(), &all) != nil {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return text
}

func mean(d stats.Duration) float64 {
	if d.Count == 0 {
		return 0
	}
	return milliseconds(time.Duration(d.Nanos / d.Count))
}
