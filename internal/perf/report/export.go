package report

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/wire"
)

// Export writes every request with its times, in the form of perf_analyzer's profile
// export. Times are nanoseconds since 1970. outputs takes an answer apart,
// response by response.
func (r *Run) Export(out io.Writer, outputs func(*measure.Record) ([][]data.Tensor, error)) error {
	w := bufio.NewWriterSize(out, 1<<20)
	w.WriteString(`{"experiments":[`) //nolint:errcheck // Flush tells of the first error
	for i := range r.Results {
		x := &r.Results[i]
		if i > 0 {
			w.WriteByte(',') //nolint:errcheck // Flush tells of the first error
		}
		mode := "request_rate"
		if r.Options.Mode == options.Closed || r.Options.Mode == options.Periodic {
			mode = "concurrency"
		}
		value := sixDigits(x.Load)
		if r.Options.Mode == options.Periodic {
			value = "1" // whatever the range, as the peer has it
		}
		w.WriteString(`{"experiment":{"mode":"` + mode + `","value":` + value + `},"requests":[`) //nolint:errcheck // as above
		first := true
		var boundaries []byte
		for k, win := range x.Windows {
			if k == 0 {
				boundaries = strconv.AppendInt(boundaries, r.Epoch+win.Start, 10)
			}
			boundaries = strconv.AppendInt(append(boundaries, ','), r.Epoch+win.End, 10)
			for j := range win.Records {
				if !first {
					w.WriteByte(',') //nolint:errcheck // Flush tells of the first error
				}
				first = false
				w.Write(r.request(&win.Records[j], outputs)) //nolint:errcheck // Flush tells of the first error
			}
		}
		w.WriteString(`],"window_boundaries":[` + string(boundaries) + `]}`) //nolint:errcheck // as above
	}
	tail, err := json.Marshal(struct { // in perf_analyzer's order
		Version  string `json:"version"`
		Kind     string `json:"service_kind"`
		Endpoint string `json:"endpoint"`
	}{r.Version, r.Options.Kind, r.Options.Endpoint})
	if err != nil {
		return err
	}
	w.WriteString("],") //nolint:errcheck // Flush tells of the first error
	w.Write(tail[1:])   //nolint:errcheck // Flush tells of the first error
	return w.Flush()
}

func (r *Run) request(x *measure.Record, outputs func(*measure.Record) ([][]data.Tensor, error)) []byte {
	b := append([]byte(`{"timestamp":`), strconv.FormatInt(r.Epoch+x.Start, 10)...)
	if x.ID != 0 {
		b = append(append(b, `,"sequence_id":`...), strconv.FormatUint(x.ID, 10)...)
	}
	b = append(b, `,"request_inputs":`...)
	if x.Step.Body != nil {
		text, _ := json.Marshal(string(x.Step.Body)) // a string never fails
		b = append(append(append(b, `{"payload":`...), text...), '}')
	} else {
		b = appendTensors(b, x.Step.Inputs)
	}
	b = append(b, `,"response_timestamps":[`...)
	for i, at := range x.At {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, r.Epoch+at, 10)
	}
	b = append(b, `],"response_outputs":[`...)
	if x.Step.Body != nil {
		b = appendBodies(b, x)
	} else if responses, err := outputs(x); err == nil {
		for i, tensors := range responses {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendTensors(b, tensors)
		}
	}
	return append(b, "]}"...)
}

func appendTensors(b []byte, list []data.Tensor) []byte {
	b = append(b, '{')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(list[i].Name) // a string never fails
		b = append(append(append(b, name...), ':'), wire.Elements(&list[i])...)
	}
	return append(b, '}')
}

// appendBodies appends the answer of a protocol that is not KServe's: each event of a
// stream alone, as many as there are times.
func appendBodies(b []byte, x *measure.Record) []byte {
	var events []string
	for line := range strings.Lines(string(x.Body)) {
		if strings.HasPrefix(line, "data:") {
			events = append(events, strings.TrimRight(line, "\r\n")+"\n\n")
		}
	}
	if len(events) != len(x.At) {
		events = []string{string(x.Body)}
	}
	for i, e := range events {
		if i > 0 {
			b = append(b, ',')
		}
		text, _ := json.Marshal(e) // a string never fails
		b = append(append(append(b, `{"response":`...), text...), '}')
	}
	return b
}
