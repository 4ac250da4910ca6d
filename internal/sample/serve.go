package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Bounds of a request.
const (
	maxQuestion = 1 << 20
	maxPoints   = 10_000
)

// Answerer answers with a model that the sample trainer wrote. Safe for concurrent use.
type Answerer struct {
	model *Model
	step  int
	// adapters are other models, which questions to NAME:ADAPTER are answered with.
	adapters map[string]*Answerer
	// Delay is waited between the words of a stream, to look like a larger model.
	Delay time.Duration
}

// LoadModel reads a model.json. What does not fit together is refused before it is used.
func LoadModel(r io.Reader) (*Answerer, error) {
	var m saved
	if err := json.NewDecoder(io.LimitReader(r, 256<<20)).Decode(&m); err != nil {
		return nil, fmt.Errorf("this is no model of the sample trainer: %w", err)
	}
	if m.Model == nil {
		return nil, errors.New("the model has no layers")
	}
	in := inputs
	for i, l := range m.Layers {
		if l.In != in || l.Out < 1 || l.Out > 4096 || len(l.Weight) != l.In*l.Out || len(l.Bias) != l.Out {
			return nil, fmt.Errorf("layer %d does not fit: %d inputs, %d outputs, %d weights", i, l.In, l.Out, len(l.Weight))
		}
		in = l.Out
	}
	if len(m.Layers) == 0 || in != 1 {
		return nil, errors.New("the model has no layers, or more than one output")
	}
	return &Answerer{model: &Model{Layers: m.Layers}, step: m.Step}, nil
}

// Trained makes a model on the spot, for who brings none.
func Trained(ctx context.Context) (*Answerer, error) {
	dir, err := os.MkdirTemp("", "sample-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o := DefaultOptions()
	o.Output = dir
	if _, err := Train(ctx, o, io.Discard); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err != nil {
		return nil, err
	}
	return LoadModel(bytes.NewReader(raw))
}

// Prediction is which spiral a point is on.
type Prediction struct {
	X           float64 `json:"x"`
	Y           float64 `json:"y"`
	Spiral      int     `json:"spiral"`
	Probability float64 `json:"probability"` // that it is on spiral 1
}

func (a *Answerer) predict(x, y float64) Prediction {
	p := sigmoid(a.model.forward(a.model.scratch(), Point{X: x, Y: y}))
	out := Prediction{X: x, Y: y, Probability: p}
	if p > 0.5 {
		out.Spiral = 1
	}
	return out
}

// Handler is the server: REST, server-sent events, WebSocket and OpenAI's chat completions.
func (a *Answerer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /{$}", a.about)
	mux.HandleFunc("GET /predict", a.one)
	mux.HandleFunc("POST /predict", a.many)
	mux.HandleFunc("GET /stream", a.stream)
	mux.HandleFunc("GET /ws", a.socket)
	mux.HandleFunc("GET /v1/models", a.models)
	mux.HandleFunc("POST /v1/chat/completions", a.chat)
	return mux
}

func sendJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func bad(w http.ResponseWriter, status int, format string, args ...any) {
	sendJSON(w, status, map[string]any{"error": map[string]any{"message": fmt.Sprintf(format, args...), "type": "invalid_request_error"}})
}

func (a *Answerer) about(w http.ResponseWriter, _ *http.Request) {
	n := 0
	for _, part := range a.model.parameters() {
		n += len(part)
	}
	sendJSON(w, http.StatusOK, map[string]any{
		"model": "spirals", "step": a.step, "parameters": n, "replica": os.Getenv("FERMI_REPLICA"),
		"paths": []string{"/predict", "/stream", "/ws", "/v1/chat/completions"},
	})
}

// point reads x and y of a query.
func point(r *http.Request) (x, y float64, err error) {
	x, errX := strconv.ParseFloat(r.URL.Query().Get("x"), 64)
	y, errY := strconv.ParseFloat(r.URL.Query().Get("y"), 64)
	if err = errors.Join(errX, errY); err != nil || math.IsNaN(x) || math.IsNaN(y) {
		return 0, 0, errors.New("say where: ?x=1.5&y=-0.5")
	}
	return x, y, nil
}

func (a *Answerer) one(w http.ResponseWriter, r *http.Request) {
	x, y, err := point(r)
	if err != nil {
		bad(w, http.StatusBadRequest, "%v", err)
		return
	}
	sendJSON(w, http.StatusOK, a.predict(x, y))
}

func (a *Answerer) many(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Points    [][2]float64 `json:"points"`
		Instances [][2]float64 `json:"instances"` // what TensorFlow Serving calls them
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&ask); err != nil || len(ask.Points)+len(ask.Instances) == 0 || len(ask.Points)+len(ask.Instances) > maxPoints {
		bad(w, http.StatusBadRequest, `send {"points": [[x, y], …]}, at most %d of them`, maxPoints)
		return
	}
	out := []Prediction{}
	for _, p := range slices.Concat(ask.Points, ask.Instances) {
		out = append(out, a.predict(p[0], p[1]))
	}
	sendJSON(w, http.StatusOK, map[string]any{"predictions": out})
}

// pause waits between two words of a stream; false: nobody listens any more.
func (a *Answerer) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// stream walks from a point to the middle, one event a step: ?x=&y=&n=10&delay=100ms.
func (a *Answerer) stream(w http.ResponseWriter, r *http.Request) {
	x, y, err := point(r)
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	delay, _ := time.ParseDuration(r.URL.Query().Get("delay"))
	if err != nil || n < 0 || n > 1_000_000 || delay < 0 {
		bad(w, http.StatusBadRequest, "say where and how often: ?x=1.5&y=-0.5&n=10&delay=100ms")
		return
	}
	if n == 0 {
		n = 10
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	for i := range n {
		part := 1 - float64(i)/float64(n)
		data, _ := json.Marshal(a.predict(x*part, y*part))
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, data); err != nil || flush.Flush() != nil || !a.pause(r.Context(), delay) {
			return
		}
	}
	_, _ = io.WriteString(w, "event: end\ndata: {}\n\n")
}

// socket answers each message {"x":…,"y":…} with a prediction.
func (a *Answerer) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // who may come is the gateway's to say
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxQuestion)
	for {
		kind, data, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		var p struct{ X, Y float64 }
		var answer any
		if err := json.Unmarshal(data, &p); err != nil {
			answer = map[string]string{"error": `send {"x": 1.5, "y": -0.5}`}
		} else {
			answer = a.predict(p.X, p.Y)
		}
		out, _ := json.Marshal(answer)
		if conn.Write(r.Context(), kind, out) != nil {
			return
		}
	}
}

func (a *Answerer) models(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []map[string]any{{"id": "spirals", "object": "model", "created": 0, "owned_by": "fermi"}}})
}

// question is what of OpenAI's request is looked at.
type question struct {
	Model   string `json:"model"`
	Stream  bool   `json:"stream"`
	Options struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

// text is the last message of the user: a text, or parts of which some are texts.
func (q *question) text() string {
	for i := len(q.Messages) - 1; i >= 0; i-- {
		if q.Messages[i].Role != "user" {
			continue
		}
		var plain string
		if json.Unmarshal(q.Messages[i].Content, &plain) == nil {
			return plain
		}
		var parts []struct{ Text string }
		_ = json.Unmarshal(q.Messages[i].Content, &parts)
		for _, p := range parts {
			plain += p.Text + " "
		}
		return plain
	}
	return ""
}

var numbers = pattern.New(`-?[0-9]+(\.[0-9]+)?`)

// words are the answer to a question, one token each.
func (a *Answerer) words(asked string) []string {
	found := numbers.FindAllString(asked, -1)
	if len(found) < 2 {
		return strings.SplitAfter("I know two spirals. Name a point, such as 1.5 -0.5, and I say which one it is on.", " ")
	}
	var out []string
	for i := 0; i+1 < len(found) && i < 2*maxPoints; i += 2 {
		x, _ := strconv.ParseFloat(found[i], 64)
		y, _ := strconv.ParseFloat(found[i+1], 64)
		p := a.predict(x, y)
		out = append(out, strings.SplitAfter(fmt.Sprintf("(%s, %s) is on spiral %d, probability %.3f. ", found[i], found[i+1], p.Spiral, max(p.Probability, 1-p.Probability)), " ")...)
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// chat is OpenAI's chat completion, whole or as a stream.
func (a *Answerer) chat(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil || len(q.Messages) == 0 {
		bad(w, http.StatusBadRequest, `send {"messages": [{"role": "user", "content": "1.5 -0.5"}]}`)
		return
	}
	if _, name, ok := strings.Cut(q.Model, ":"); ok {
		other := a.adapters[name]
		if other == nil {
			bad(w, http.StatusNotFound, "there is no adapter %q", name)
			return
		}
		a = &Answerer{model: other.model, step: other.step, Delay: a.Delay}
	}
	asked := q.text()
	words := a.words(asked)
	id := fmt.Sprintf("chatcmpl-%x", time.Now().UnixNano())
	created := time.Now().Unix()
	in := len(strings.Fields(asked))
	usage := map[string]any{"prompt_tokens": in, "completion_tokens": len(words), "total_tokens": in + len(words)}
	if !q.Stream {
		sendJSON(w, http.StatusOK, map[string]any{
			"id": id, "object": "chat.completion", "created": created, "model": q.Model,
			"choices": []map[string]any{{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": strings.TrimSpace(strings.Join(words, ""))}}},
			"usage":   usage,
		})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	chunk := func(choices []map[string]any, used map[string]any) bool {
		piece := map[string]any{"id": id, "object": "chat.completion.chunk", "created": created, "model": q.Model, "choices": choices}
		if q.Options.Usage {
			piece["usage"] = used // null but in the last one
		}
		data, _ := json.Marshal(piece)
		_, err := fmt.Fprintf(w, "data: %s\n\n", data)
		return err == nil && flush.Flush() == nil
	}
	send := func(delta map[string]any, finish any) bool {
		return chunk([]map[string]any{{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
	}
	if !send(map[string]any{"role": "assistant", "content": ""}, nil) {
		return
	}
	for _, word := range words {
		if !a.pause(r.Context(), a.Delay) || !send(map[string]any{"content": word}, nil) {
			return
		}
	}
	if send(map[string]any{}, "stop") && (!q.Options.Usage || chunk([]map[string]any{}, usage)) {
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
}

// Serve answers on l until ctx ends, then lets requests finish for up to grace.
func (a *Answerer) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	srv := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close()
	}
	<-failed
	return nil
}

func serveCommand(both func(en, zh string) string) *cobra.Command {
	var listen, model string
	var adapters []string
	var delay, startup time.Duration
	cmd := &cobra.Command{
		Use:   "serve",
		Short: both("Answer with a model of `fermi sample train`: REST, SSE, WebSocket, OpenAI's chat", "用 fermi sample train 训练的模型提供服务：REST、SSE、WebSocket、OpenAI 对话接口"),
		Long: both("Listens on $PORT, or where --listen says. Without --model it trains a small one first.",
			"监听 $PORT，或 --listen 指定的地址。未指定 --model 时先训练一个小模型。"),
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&listen, "listen", "", both("address (default: all addresses, $PORT)", "监听地址（默认：所有地址、$PORT）"))
	cmd.Flags().StringVar(&model, "model", "", both("model.json of the sample trainer", "sample 训练产出的 model.json"))
	cmd.Flags().StringArrayVar(&adapters, "adapter", nil, both("NAME=model.json: what questions to MODEL:NAME are answered with; may be repeated", "NAME=model.json：以 MODEL:NAME 提问时使用的模型；可重复"))
	cmd.Flags().DurationVar(&delay, "delay", 0, both("wait between the words of a streamed answer, such as 50ms", "流式回答中每个词之间的等待时间，如 50ms"))
	cmd.Flags().DurationVar(&startup, "startup", 0, both("wait before listening, to look like a larger model", "监听前的等待时间，用于模拟较大的模型"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := notify(cmd.Context())
		defer stop()
		err := serveSample(ctx, listen, model, adapters, delay, startup, cmd.OutOrStdout())
		var ours *Exit
		if errors.As(context.Cause(ctx), &ours) && err == nil {
			return nil // told to end, and everything was answered
		}
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "sample:", err)
			return &Exit{1, err}
		}
		return nil
	}
	return cmd
}

// loadFile reads a model.json.
func loadFile(name string) (*Answerer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return LoadModel(f)
}

func serveSample(ctx context.Context, listen, model string, adapters []string, delay, startup time.Duration, out io.Writer) (err error) {
	var a *Answerer
	if model == "" {
		a, err = Trained(ctx)
	} else {
		a, err = loadFile(model)
	}
	if err != nil {
		return err
	}
	a.adapters = map[string]*Answerer{}
	for _, text := range adapters {
		name, file, _ := strings.Cut(text, "=")
		if a.adapters[name], err = loadFile(file); err != nil {
			return fmt.Errorf("adapter %s: %w", name, err)
		}
	}
	a.Delay = delay
	if !a.pause(ctx, startup) {
		return nil
	}
	if listen == "" {
		port := os.Getenv("PORT")
		if port == "" {
			return errors.New("say where to listen: --listen, or $PORT")
		}
		listen = ":" + port
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving a model of %d steps on %s\n", a.step, l.Addr())
	return a.Serve(ctx, l, 25*time.Second)
}
