package openai

import (
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/openapi"
	"github.com/nesoserve/neso/tensor"
)

// Names of the tensors of a text model, as vLLM's and TensorRT-LLM's models for
// Triton have them.
const (
	defaultInput    = "text_input"
	defaultOutput   = generation.DefaultOutput
	defaultMessages = "messages"
	defaultSampling = "sampling_parameters"
)

// Parameters of a model's configuration.
const (
	taskKey     = "openai_task"
	inputKey    = "openai_input"
	outputKey   = "openai_output"
	messagesKey = "openai_messages"
	samplingKey = "openai_parameters"
	templateKey = "chat_template"
)

// Mapping is what a model is to the API.
type Mapping struct {
	// Completes, Chats and Embeds say which routes it has.
	Completes, Chats, Embeds bool
	// Input, Output and Messages are tensors: of the prompt, of the text or vector, and
	// of a chat's messages as JSON. Sampling is an input that takes the parameters as
	// one JSON object. Each may be empty.
	Input, Output, Messages, Sampling string

	format   *format
	config   *modelconfig.Config
	together int // texts that one request for vectors may have
}

// Map says what a model is to the API; the error tells what is wrong in the
// parameters of its configuration.
func Map(cfg *modelconfig.Config) (*Mapping, *Error) {
	m := &Mapping{config: cfg}
	tasks := strings.FieldsFunc(cfg.Parameters[taskKey], func(r rune) bool { return r == ',' || r == ' ' })
	for _, t := range tasks {
		if !slices.Contains([]string{"completions", "chat", "embeddings", "none"}, t) {
			return nil, m.wrong(taskKey, "'"+t+"' is none of completions, chat, embeddings, none")
		}
	}
	if slices.Contains(tasks, "none") {
		return m, nil
	}
	for _, n := range []struct {
		key, usual string
		to         *string
	}{{inputKey, defaultInput, &m.Input}, {messagesKey, defaultMessages, &m.Messages}, {samplingKey, defaultSampling, &m.Sampling}} {
		named := cfg.Parameters[n.key]
		switch in := cfg.Input(or(named, n.usual)); {
		case in != nil && in.Datatype == tensor.Bytes:
			*n.to = in.Name
		case named != "":
			return nil, m.wrong(n.key, "the model has no input '"+named+"' of strings")
		}
	}
	out := m.output(or(cfg.Parameters[outputKey], defaultOutput))
	if out == nil && cfg.Parameters[outputKey] != "" {
		return nil, m.wrong(outputKey, "the model has no output '"+cfg.Parameters[outputKey]+"'")
	}
	if out != nil && out.Datatype == tensor.Bytes {
		m.Output = out.Name
		if err := m.texts(cfg.Parameters[templateKey]); err != nil {
			return nil, err
		}
	} else {
		m.vectors(out)
	}
	return m, m.only(tasks)
}

// texts finds the routes of a model that writes text.
func (m *Mapping) texts(template string) *Error {
	m.Completes = m.Input != ""
	m.Chats = m.Messages != ""
	if template == "" || m.Input == "" {
		return nil
	}
	if m.format = formats[template]; m.format == nil {
		return m.wrong(templateKey, "'"+cut(template, 60)+"' is none of "+formatNames()+
			"; a template in Jinja is for the model, which takes the messages in an input")
	}
	m.Chats = true
	return nil
}

// vectors finds out whether the model makes one vector of a text.
func (m *Mapping) vectors(out *modelconfig.Output) {
	cfg := m.config
	if out == nil && len(cfg.Outputs) == 1 {
		out = &cfg.Outputs[0]
	}
	in := cfg.Input(m.Input)
	if in == nil {
		for i := range cfg.Inputs {
			switch {
			case cfg.Inputs[i].Optional:
			case in != nil:
				return
			default:
				in = &cfg.Inputs[i]
			}
		}
	}
	if out == nil || out.Datatype != tensor.FP32 || len(out.Dims) == 0 || in == nil || in.Datatype != tensor.Bytes {
		return
	}
	m.Embeds, m.Input, m.Output, m.together = true, in.Name, out.Name, 1
	if one := len(in.Dims) > 0 && !slices.ContainsFunc(in.Dims, func(d int64) bool { return d != 1 }); one && cfg.MaxBatchSize > 0 {
		m.together = cfg.MaxBatchSize
	}
}

// only leaves the routes that the configuration names; none names all.
func (m *Mapping) only(tasks []string) *Error {
	if len(tasks) == 0 {
		return nil
	}
	for _, t := range []struct {
		name string
		has  *bool
	}{{"completions", &m.Completes}, {"chat", &m.Chats}, {"embeddings", &m.Embeds}} {
		wanted := slices.Contains(tasks, t.name)
		if wanted && !*t.has {
			return m.wrong(taskKey, "the model has not the tensors for "+t.name)
		}
		*t.has = *t.has && wanted
	}
	return nil
}

// Offered says whether the model has a route at all.
func (m *Mapping) Offered() bool { return m.Completes || m.Chats || m.Embeds }

// Offer says what each route is for, of models in their order. One whose parameters are
// wrong is left out: the routes tell that to who asks for it.
func Offer(models []*modelconfig.Config) *openapi.OpenAI {
	var o openapi.OpenAI
	for _, cfg := range models {
		m, bad := Map(cfg)
		if bad != nil {
			continue
		}
		if m.Completes {
			o.Completions = append(o.Completions, cfg.Name)
		}
		if m.Chats {
			o.Chats = append(o.Chats, cfg.Name)
		}
		if m.Embeds {
			o.Embeddings = append(o.Embeddings, cfg.Name)
		}
	}
	return &o
}

func (m *Mapping) wrong(key, why string) *Error {
	return &Error{Status: 500, Message: "parameter '" + key + "' of model '" + m.config.Name + "': " + why}
}

func (m *Mapping) output(name string) *modelconfig.Output {
	for i := range m.config.Outputs {
		if m.config.Outputs[i].Name == name {
			return &m.config.Outputs[i]
		}
	}
	return nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
