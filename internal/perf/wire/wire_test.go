package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/tensor"
)

func call() *Call {
	return &Call{
		Model: "a b", Version: "3", Host: "h:1", Headers: [][2]string{{"X-A", "b"}}, Sequence: true,
		Parameters: []Parameter{{"n", int64(-5)}, {"s", `q"`}, {"b", true}},
		Outputs:    []Output{{Name: "O"}, {Name: "R", Region: "out", Offset: 8, Size: 16}},
	}
}

func step() *data.Step {
	return &data.Step{Inputs: []data.Tensor{
		{Name: "I", Datatype: tensor.Int16, Shape: tensor.Shape{1, 2}, Bytes: []byte{1, 0, 0xff, 0xff}},
		{Name: "J", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Bytes: tensor.AppendElement(nil, "x")},
	}}
}

// TestHTTP reads the bytes by the standard library, for ids of every width.
func TestHTTP(t *testing.T) {
	for _, id := range []uint64{1, 12345, math.MaxUint64} {
		for _, text := range []bool{false, true} {
			c := call()
			c.JSONInput = text
			p, err := HTTP(c, step())
			if err != nil {
				t.Fatal(err)
			}
			b := append(p.AppendHead(nil, id, true, id == 1), p.Tail...)
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r.Body)
			if r.URL.EscapedPath() != "/v2/models/a%20b/versions/3/infer" ||
				r.Host != "h:1" || r.Header.Get("X-A") != "b" || int64(len(body)) != r.ContentLength {
				t.Errorf("%+v", r)
			}
			n, _ := strconv.Atoi(r.Header.Get("Inference-Header-Content-Length"))
			var got struct {
				Parameters struct {
					ID         uint64 `json:"sequence_id"`
					Start, End bool
					S          string
					N          int
				}
				Inputs  []map[string]any
				Outputs []map[string]any
			}
			head := bytes.ReplaceAll(bytes.ReplaceAll(body[:n], []byte("sequence_start"), []byte("start")), []byte("sequence_end"), []byte("end"))
			if err := json.Unmarshal(head, &got); err != nil {
				t.Fatalf("%v in %s", err, head)
			}
			if q := got.Parameters; q.ID != id || !q.Start || q.End != (id == 1) ||
				q.S != `q"` || q.N != -5 || len(got.Inputs) != 2 || len(got.Outputs) != 2 {
				t.Errorf("%+v", got)
			}
			if text {
				want := []any{[]any{1.0, -1.0}, []any{"x"}}
				if diff := cmp.Diff([]any{got.Inputs[0]["data"], got.Inputs[1]["data"]}, want); diff != "" || len(body) != n {
					t.Error(diff)
				}
			} else if string(body[n:]) != "\x01\x00\xff\xff\x01\x00\x00\x00x" {
				t.Errorf("%q", body[n:])
			}
		}
	}
}

// TestGRPC reads the bytes by the protobuf library.
func TestGRPC(t *testing.T) {
	p := GRPC(call(), step())
	for _, id := range []uint64{1, 127, 128, math.MaxInt64} {
		b := append(p.AppendHead(nil, id, false, true), p.Tail...)
		var m inferencepb.ModelInferRequest
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		q := m.GetParameters()
		if m.GetModelName() != "a b" || m.GetModelVersion() != "3" || q["sequence_id"].GetInt64Param() != int64(id) ||
			q["sequence_start"].GetBoolParam() || !q["sequence_end"].GetBoolParam() || q["n"].GetInt64Param() != -5 ||
			q["s"].GetStringParam() != `q"` || !q["b"].GetBoolParam() {
			t.Errorf("%v", &m)
		}
		in, out := m.GetInputs(), m.GetOutputs()
		if len(in) != 2 || in[0].GetDatatype() != "INT16" || !tensor.Shape(in[0].GetShape()).Equal(tensor.Shape{1, 2}) ||
			string(m.GetRawInputContents()[0]) != "\x01\x00\xff\xff" || out[1].GetParameters()["shared_memory_offset"].GetInt64Param() != 8 {
			t.Errorf("%v", &m)
		}
	}
}
