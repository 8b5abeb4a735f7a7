package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// speaker writes a text in as many pieces as its prompt has bytes, and fails behind the
// third one of a prompt with an x.
func speaker() *nesotest.Echo {
	return &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, batch *backend.Batch) (bool, error) {
		for _, r := range batch.Requests {
			prompt := string(r.Inputs[0].Data[4:])
			for i := range len(prompt) {
				resp := &backend.Response{Outputs: []tensor.Tensor{{
					Name: "text_output", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: tensor.AppendElement(nil, []byte("piece ")),
				}}}
				if i == 2 && strings.Contains(prompt, "x") {
					resp = &backend.Response{Err: backend.Errorf(backend.Internal, "no more words")}
				}
				if r.Respond(resp, false) != nil {
					break // cancelled
				}
			}
			_ = r.Respond(nil, true) // as above
		}
		return true, nil
	}}
}

// Clients that come, read a part and go leave nothing behind: serve looks at the ledger,
// TestMain at goroutines.
func TestTextsThatNobodyWaitsFor(t *testing.T) {
	addr := serve(t, speaker(), func(o *Options, eo *engine.Options) {
		o.OpenAI = true
		eo.Repositories = []string{nesotest.Tree(t, map[string]string{
			"talk/1/": "", "talk/config.pbtxt": `backend: "echo" model_transaction_policy { decoupled: true }
				parameters { key: "chat_template" value { string_value: "plain" } } instance_group [{ count: 4 kind: KIND_CPU }]
				input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }`,
		})}
	})
	body := func(i int) (path, text string) {
		prompt := strings.Repeat("a", 1+i%50)
		if i%7 == 0 {
			prompt += "x"
		}
		switch stream := fmt.Sprint(i%2 == 0); i % 3 {
		case 0:
			return "/v1/completions", `{"model":"talk","prompt":["` + prompt + `","b"],"n":2,"stream":` + stream + `}`
		case 1:
			return "/v1/chat/completions", `{"model":"talk","messages":[{"role":"user","content":"` + prompt + `"}],"stream":` + stream + `}`
		default:
			return "/v1/responses", `{"model":"talk","input":"` + prompt + `","stream":` + stream + `}`
		}
	}
	var clients sync.WaitGroup
	for k := range 8 {
		clients.Go(func() {
			for i := range 40 {
				c := dial(t, addr)
				path, text := body(k + 8*i)
				c.send("POST", path, nil, []byte(text))
				switch i % 4 {
				case 0: // gone at once
				case 1: // after a part
					_, _ = c.c.Read(make([]byte, 1+10*i))
				default:
					if _, err := c.answer("POST"); err != nil {
						t.Errorf("%s %s: %v", path, text, err)
					}
				}
				c.c.Close()
			}
		})
	}
	clients.Wait()
}

// A request for more vectors than the server takes requests is answered, some at a time,
// in the order of its texts.
func TestMoreTextsThanThereIsRoomFor(t *testing.T) {
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, batch *backend.Batch) (bool, error) {
		for _, r := range batch.Requests {
			row := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(len(r.Inputs[0].Data)-4)))
			_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{ // a cancelled request needs nothing more
				{Name: "OUT", Datatype: tensor.FP32, Shape: tensor.Shape{1}, Data: row},
			}}, true)
		}
		return true, nil
	}}
	addr := serve(t, echo, func(o *Options, eo *engine.Options) {
		o.OpenAI, eo.MaxQueuedRequests = true, 8
		eo.Repositories = []string{nesotest.Tree(t, map[string]string{
			"v/1/": "", "v/config.pbtxt": `backend: "echo" input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }
				output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }`,
		})}
	})
	var texts, want []string
	for i := range 100 {
		texts = append(texts, `"`+strings.Repeat("a", i)+`"`)
		want = append(want, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d]}`, i, i))
	}
	r := dial(t, addr).do("POST", "/v1/embeddings", nil, []byte(`{"model":"v","input":[`+strings.Join(texts, ",")+`]}`))
	if r.StatusCode != 200 || !strings.Contains(string(r.body), "["+strings.Join(want, ",")+"]") {
		t.Errorf("%d %.300s", r.StatusCode, r.body)
	}
}

// A key is for models, by whatever version they are asked for.
func TestKeysOfVersions(t *testing.T) {
	const entry = `{"name": "%s", "sha256": "%x", "scopes": ["infer"], "models": ["%s"]}`
	keys, err := auth.Parse(fmt.Appendf(nil, `{"keys": [`+entry+`, `+entry+`]}`,
		"one", sha256.Sum256([]byte("key of one")), "v", "other", sha256.Sum256([]byte("key of other")), "*1"))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, nil, func(o *Options, eo *engine.Options) {
		o.OpenAI, o.Guard = true, auth.NewGuard(keys, nil)
		eo.Repositories = []string{nesotest.Tree(t, map[string]string{
			"v/1/": "", "v/config.pbtxt": `backend: "echo" input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }
				output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }`,
		})}
	})
	c := dial(t, addr)
	for _, x := range []struct {
		key, name string
		want      int
	}{{"one", "v", 200}, {"one", "v@1", 200}, {"one", "v@2", 404}, {"other", "v", 403}, {"other", "v@1", 403}} {
		if r := c.do("GET", "/v1/models/"+x.name, []string{"X-Api-Key: key of " + x.key}, nil); r.StatusCode != x.want {
			t.Errorf("%s, key of %s: %d %s", x.name, x.key, r.StatusCode, r.body)
		}
	}
}
