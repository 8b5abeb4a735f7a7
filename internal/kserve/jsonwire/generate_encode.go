package jsonwire

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// TextExactlyOne is the error of generate for a model that gives no response
// or several.
const TextExactlyOne = "generate expects model to produce exactly 1 response, use generate stream for model that generates " +
	"various number of responses"

// replyMember is one member of the reply.
type replyMember struct {
	name  string
	index int // into the outputs, or behind them into the parameters
}

const (
	generatedModel   = -1
	generatedVersion = -2
	generatedID      = -3
)

// AppendGenerate appends the reply to a generate request: one flat object of
// the outputs, the response's parameters, the request's id if it has one, the
// model and its version, in the order of their names. An output with one
// element is a bare value, others are flat arrays. The response is borrowed. An
// error, the response's own or one of its form, leaves b as it was.
func AppendGenerate(b []byte, cfg *modelconfig.Config, id string, version int64, resp *backend.Response) ([]byte, *backend.Error) {
	if resp.Err != nil {
		return b, resp.Err
	}
	members := make([]replyMember, 0, len(resp.Outputs)+len(resp.Parameters)+3)
	for i := range resp.Outputs {
		members = append(members, replyMember{resp.Outputs[i].Name, i})
	}
	members = append(members, replyMember{"model_name", generatedModel}, replyMember{"model_version", generatedVersion})
	if id != "" {
		members = append(members, replyMember{generateID, generatedID})
	}
	for i := range resp.Parameters {
		members = append(members, replyMember{resp.Parameters[i].Name, len(resp.Outputs) + i})
	}
	slices.SortStableFunc(members, func(x, y replyMember) int { return cmp.Compare(x.name, y.name) })
	members = slices.CompactFunc(members, func(x, y replyMember) bool { return x.name == y.name })
	begin := len(b)
	for i, m := range members {
		b = append(b, "{,"[min(i, 1)])
		if m.index >= len(resp.Outputs) {
			b = appendParameter(b, resp.Parameters[m.index-len(resp.Outputs)])
			continue
		}
		b = append(appendValid(b, m.name), ':')
		switch m.index {
		case generatedModel:
			b = appendText(b, cfg.Name)
		case generatedVersion:
			b = append(strconv.AppendInt(append(b, '"'), version, 10), '"')
		case generatedID:
			b = appendValid(b, id)
		default:
			o := &resp.Outputs[m.index]
			var ok bool
			n, _ := o.Shape.Elements() // an output's shape has been checked
			if n != 1 {
				b = append(b, '[')
			}
			if b, ok = appendData(b, o.Datatype, o.Data); !ok {
				return b[:begin], unsendable(o.Datatype)
			}
			if n != 1 {
				b = append(b, ']')
			}
		}
	}
	return append(b, '}'), nil
}

// AppendEvent appends a response to a generate_stream request as a server-sent
// event. The response is borrowed; the error is the one that the event carries.
func AppendEvent(b []byte, cfg *modelconfig.Config, id string, version int64, resp *backend.Response) ([]byte, *backend.Error) {
	from := len(b)
	b = append(b, "data: "...)
	b, err := AppendGenerate(b, cfg, id, version, resp)
	if err != nil {
		return AppendEventError(b[:from], err), err
	}
	return append(b, "\n\n"...), nil
}

// AppendEventError appends the server-sent event of an error.
func AppendEventError(b []byte, err *backend.Error) []byte {
	return append(AppendError(append(b, "data: "...), err.Message), "\n\n"...)
}
