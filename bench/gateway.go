package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

// earlier is set to an earlier build of ours, which then runs in the same rounds.
const earlier = "FERMI_BENCH_EARLIER"

// bareProxy is set for the process that is Go's own reverse proxy: where it listens and whom it asks.
const bareProxy = "FERMI_BENCH_BARE"

// carrier is one proxy before the same backend, in a process of its own.
type carrier struct {
	name, url string
	pid       int
	key       string
	perAsk    []float64 // CPU-µs, by round
}

// benchGateway measures what a request costs each proxy, and what open streams cost ours.
func benchGateway(ctx context.Context, r *report) error {
	if pair := os.Getenv(bareProxy); pair != "" {
		return beBare(ctx, pair)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < 3*openStreams {
		return fmt.Errorf("%d open files are allowed, %d streams need more", limit.Max, openStreams)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("open more files: %w", err)
	}
	kinds.ShipServices()
	scene, err := newScene(ctx)
	if err != nil {
		return err
	}
	defer scene.close()
	rest, err := residentOf(scene.carriers[0].pid)
	if err != nil {
		return err
	}
	if err := scene.race(ctx); err != nil {
		return err
	}
	cost := map[string]float64{}
	for _, v := range scene.carriers {
		cost[v.name] = middle(v.perAsk)
		fmt.Printf("%-8s %6.1f CPU-µs a request %v\n", v.name, cost[v.name], v.perAsk)
	}
	r.atMost("CPU-µs a request, with auth, limits, routing and metering", cost["fermi"], 110)
	r.atMost("of what Go's bare ReverseProxy takes", cost["fermi"]/cost["bare"], 1.25)
	r.atMost("of what Caddy takes", cost["fermi"]/cost["caddy"], 1)
	for _, name := range []string{"bare", "caddy", "nginx", "haproxy", "earlier"} {
		if cost[name] > 0 {
			r.tell("CPU-µs a request of "+name, cost[name])
		}
	}
	added, err := scene.firstWord(ctx)
	if err != nil {
		return err
	}
	r.atMost("ms added until the first word, p50", added, 0.5)
	r.atMost("MB at rest", rest/1e6, 64)
	if err := scene.streams(ctx, r); err != nil {
		return err
	}
	return scene.level(ctx, r)
}

// beBare is Go's reverse proxy with nothing around it.
func beBare(ctx context.Context, pair string) error {
	at, to, _ := strings.Cut(pair, " ")
	target, err := url.Parse(to)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.DisableCompression = 1024, true
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.SetXForwarded() }, Transport: transport, BufferPool: &lent{}}
	srv := &http.Server{Addr: at, Handler: proxy}
	go func() { <-ctx.Done(); _ = srv.Close() }()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type lent struct{ sync.Pool }

func (l *lent) Get() []byte {
	if b, ok := l.Pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}
func (l *lent) Put(b []byte) { l.Pool.Put(&b) }

// scene is a platform with one service, and all carriers before its one replica.
type scene struct {
	c        *harness.Cluster
	dir      string
	backend  string
	carriers []*carrier // the first is ours
	started  []*exec.Cmd
}

func newScene(ctx context.Context) (s *scene, err error) {
	bin, err := harness.Binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-gateway-")
	if err != nil {
		return nil, err
	}
	s = &scene{dir: dir}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.c, err = harness.New(bin, "up", "--demo"); err != nil {
		return nil, err
	}
	if err := s.c.Start(ctx); err != nil {
		return nil, err
	}
	cl, err := s.c.Client()
	if err != nil {
		return nil, err
	}
	wish := &serving.InferenceService{Meta: api.Meta{Name: "bench", Project: "default"}, Spec: serving.ServiceSpec{MaxConcurrency: 20000, Template: serving.ServiceTemplate{Engine: serving.EngineSample}}}
	if _, err := client.Create(ctx, cl, wish); err != nil {
		return nil, err
	}
	if err := until(ctx, func() bool {
		e, err := client.Get[*serving.ServiceEndpoints](ctx, cl, "", "bench")
		if err == nil && len(e.Spec.Replicas) == 1 {
			s.backend = e.Spec.Replicas[0].Address
		}
		return s.backend != ""
	}); err != nil {
		return nil, fmt.Errorf("the service does not answer: %w", err)
	}
	key, err := cl.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: "bench"}, Spec: api.TokenSpec{User: "admin", Scope: serving.ScopeInference}}, false)
	if err != nil {
		return nil, err
	}
	return s, s.startCarriers(ctx, bin, key.Secret)
}

func (s *scene) startCarriers(ctx context.Context, bin, key string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	write := func(name, text string) string {
		file := filepath.Join(s.dir, name)
		if e := os.WriteFile(file, []byte(text), 0o644); e != nil {
			err = e
		}
		return file
	}
	type program struct {
		name string
		make func(at string) *exec.Cmd
	}
	ours := func(bin string) func(at string) *exec.Cmd {
		return func(at string) *exec.Cmd { return exec.Command(bin, "gateway", "--data", s.c.Dir, "--listen", at) }
	}
	programs := []program{
		{"fermi", ours(bin)},
		{"bare", func(at string) *exec.Cmd {
			cmd := exec.Command(self, "gateway")
			cmd.Env = append(os.Environ(), bareProxy+"="+at+" http://"+s.backend)
			return cmd
		}},
		{"caddy", func(at string) *exec.Cmd {
			return exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", write("Caddyfile", fmt.Sprintf("{\n admin off\n auto_https off\n}\nhttp://%s {\n reverse_proxy %s {\n  flush_interval -1\n }\n}\n", at, s.backend)))
		}},
		{"nginx", func(at string) *exec.Cmd {
			return exec.Command("nginx", "-p", s.dir, "-g", "daemon off;", "-c", write("nginx.conf", fmt.Sprintf(`worker_processes 2; pid %[1]s/nginx.pid; error_log %[1]s/nginx.log; events { worker_connections 8192; }
http { access_log off; upstream b { server %[2]s; keepalive 256; keepalive_requests 1000000; } server { listen %[3]s; keepalive_requests 1000000; location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; } } }`, s.dir, s.backend, at)))
		}},
		{"haproxy", func(at string) *exec.Cmd {
			return exec.Command("haproxy", "-db", "-f", write("haproxy.cfg", fmt.Sprintf("global\n maxconn 8192\ndefaults\n mode http\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n http-reuse always\nfrontend f\n bind %s\n default_backend b\nbackend b\n server s %s\n", at, s.backend)))
		}},
	}
	if bin := os.Getenv(earlier); bin != "" {
		programs = append(programs, program{"earlier", ours(bin)})
	}
	for _, p := range programs {
		at, e := freeAddress()
		if e != nil {
			return e
		}
		cmd := p.make(at)
		if err != nil {
			return err
		}
		log, e := os.Create(filepath.Join(s.dir, p.name+".log"))
		if e != nil {
			return e
		}
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true}
		if e := cmd.Start(); e != nil {
			return fmt.Errorf("%s: %w", p.name, e)
		}
		s.started = append(s.started, cmd)
		v := &carrier{name: p.name, url: "http://" + at, pid: cmd.Process.Pid}
		if p.name == "fermi" || p.name == "earlier" {
			v.url, v.key = v.url+"/inference/bench", key
		}
		s.carriers = append(s.carriers, v)
		if e := until(ctx, func() bool { return v.ask(ctx, http.DefaultClient) == nil }); e != nil {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s does not answer: %w\n%s", p.name, e, text)
		}
	}
	return nil
}

func (s *scene) close() {
	for _, cmd := range s.started {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
	if s.c != nil {
		_ = s.c.Stop()
		s.c.Cleanup()
	}
	_ = os.RemoveAll(s.dir)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// points is a question of about 1 kB, whose answer has as much.
var points = func() []byte {
	var b bytes.Buffer
	b.WriteString(`{"points":[`)
	for i := range 13 {
		fmt.Fprintf(&b, "[%d.25,-0.%d],", i%5, i)
	}
	b.WriteString(`[0,1]]`)
	b.WriteString(strings.Repeat(" ", 1023-b.Len()))
	b.WriteString(`}`)
	return b.Bytes()
}()

func (v *carrier) question(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, v.url+path, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		if v.key != "" {
			req.Header.Set("Authorization", "Bearer "+v.key)
		}
	}
	return req, err
}

func (v *carrier) ask(ctx context.Context, c *http.Client) error {
	req, err := v.question(ctx, http.MethodPost, "/predict", points)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != 200 || n < 800) {
		err = fmt.Errorf("%s answers %d with %d bytes", v.name, resp.StatusCode, n)
	}
	return err
}

const (
	raceRounds  = 5
	raceAsks    = 6000
	raceClients = 16
)

// race has each carrier answer the same questions, in turns.
func (s *scene) race(ctx context.Context) error {
	for round := range raceRounds + 1 {
		for _, v := range s.carriers {
			before, err := spent(v.pid)
			if err != nil {
				return err
			}
			transport := &http.Transport{MaxIdleConnsPerHost: raceClients, DisableCompression: true}
			c := &http.Client{Transport: transport}
			var left atomic.Int64
			left.Store(raceAsks)
			errs := make(chan error, raceClients)
			for range raceClients {
				go func() {
					var err error
					for err == nil && left.Add(-1) >= 0 {
						err = v.ask(ctx, c)
					}
					errs <- err
				}()
			}
			for range raceClients {
				err = errors.Join(err, <-errs)
			}
			transport.CloseIdleConnections()
			if err != nil {
				return err
			}
			after, err := spent(v.pid)
			if err != nil {
				return err
			}
			if round > 0 { // the first warms up
				v.perAsk = append(v.perAsk, float64((after-before).Microseconds())/raceAsks)
			}
		}
	}
	return nil
}

// spent is the CPU time of a process group's processes.
func spent(group int) (total time.Duration, err error) {
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if f[2] != strconv.Itoa(group) {
			continue
		}
		for _, i := range []int{11, 12} { // in hundredths of a second
			n, _ := strconv.ParseInt(f[i], 10, 64)
			total += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return total, nil
}

func residentOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return n * 1024, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// firstWord is how much later the first word of a stream comes through the gateway than without it, in ms: the medians of
// pairs asked in turns.
func (s *scene) firstWord(ctx context.Context) (float64, error) {
	direct := &carrier{name: "direct", url: "http://" + s.backend}
	took := map[*carrier][]float64{}
	for i := range 600 {
		for _, v := range []*carrier{direct, s.carriers[0]} {
			begun := time.Now()
			req, err := v.question(ctx, http.MethodGet, "/stream?x=1&y=1&n=1", nil)
			if err != nil {
				return 0, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return 0, err
			}
			var b [1]byte
			_, err = io.ReadFull(resp.Body, b[:])
			ms := float64(time.Since(begun).Microseconds()) / 1000
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return 0, err
			}
			if i >= 100 {
				took[v] = append(took[v], ms)
			}
		}
	}
	fmt.Printf("first word: %.3f ms direct, %.3f ms through the gateway\n", middle(took[direct]), middle(took[s.carriers[0]]))
	return middle(took[s.carriers[0]]) - middle(took[direct]), nil
}

const (
	openStreams  = 5000
	streamFrames = 6
)

// streams opens many at once, and looks at the gateway's memory while all of them are open and have sent something.
func (s *scene) streams(ctx context.Context, r *report) error {
	v := s.carriers[0]
	before, err := residentOf(v.pid)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableCompression: true, ReadBufferSize: 2048}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	var open, frames, whole atomic.Int64
	var bad atomic.Pointer[error]
	tell := func(err error) { bad.CompareAndSwap(nil, &err) }
	var wg sync.WaitGroup
	places := make(chan struct{}, 64) // so many are opened at a time
	for range openStreams {
		places <- struct{}{}
		wg.Go(func() {
			opened := sync.OnceFunc(func() { <-places })
			defer opened()
			req, err := v.question(ctx, http.MethodGet, fmt.Sprintf("/stream?x=1&y=1&n=%d&delay=20s", streamFrames), nil)
			if err != nil {
				return
			}
			resp, err := c.Do(req)
			if err != nil {
				tell(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				tell(fmt.Errorf("a stream is answered %d", resp.StatusCode))
			}
			lines := bufio.NewReaderSize(resp.Body, 512)
			next := 0
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					tell(err)
					return
				}
				if strings.HasPrefix(line, "event: end") {
					whole.Add(1)
					return
				}
				if id, ok := strings.CutPrefix(line, "id: "); ok {
					if id != strconv.Itoa(next)+"\n" {
						return
					}
					if next++; next == 1 {
						open.Add(1)
						opened()
					}
					frames.Add(1)
				}
			}
		})
	}
	if err := until(ctx, func() bool { return open.Load() == openStreams }); err != nil {
		if first := bad.Load(); first != nil {
			err = errors.Join(err, *first)
		}
		return fmt.Errorf("%d streams are open: %w", open.Load(), err)
	}
	if err := until(ctx, func() bool { return frames.Load() >= 2*openStreams }); err != nil {
		return fmt.Errorf("%d frames came: %w", frames.Load(), err)
	}
	most, err := residentOf(v.pid)
	if err != nil {
		return err
	}
	wg.Wait()
	r.atMost("kB a stream, 5,000 open", (most-before)/1000/openStreams, 40)
	r.atMost("frames lost", float64(openStreams*streamFrames)-float64(frames.Load()), 0)
	r.atMost("streams cut", openStreams-float64(whole.Load()), 0)
	return nil
}

// levelFor is how long memory is watched; FERMI_GATEWAY_MINUTES, 10 when absent.
func levelFor() time.Duration {
	return time.Duration(harness.EnvInt("FERMI_GATEWAY_MINUTES", 10)) * time.Minute
}

// level has the gateway carry a mixture of questions without a pause, of which some have no answer and some clients leave, and compares its memory in the last
// fifth of the time with that in the second: the first one warms up.
func (s *scene) level(ctx context.Context, r *report) error {
	v := s.carriers[0]
	ctx, cancel := context.WithTimeout(ctx, levelFor())
	defer cancel()
	begun := time.Now()
	var asked atomic.Int64
	var wg sync.WaitGroup
	transport := &http.Transport{MaxIdleConnsPerHost: raceClients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	for side := range raceClients / 2 {
		wg.Go(func() {
			for n := side; ctx.Err() == nil; n++ {
				v.mixed(ctx, c, n)
				asked.Add(1)
			}
		})
	}
	most := map[int]float64{} // by fifths
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			now, err := residentOf(v.pid)
			if err != nil {
				return err
			}
			fifth := int(5 * time.Since(begun) / levelFor())
			most[fifth] = max(most[fifth], now)
		}
	}
	wg.Wait()
	fmt.Printf("memory, most of each fifth of %s with %d questions: %.1f %.1f %.1f %.1f %.1f MB\n", levelFor(), asked.Load(), most[0]/1e6, most[1]/1e6, most[2]/1e6, most[3]/1e6, most[4]/1e6)
	r.tell("minutes of a mixture of questions", levelFor().Minutes())
	r.tell("questions in that time", float64(asked.Load()))
	r.tell("MB in the second fifth of it, at most", most[1]/1e6)
	r.atMost("MB that the last fifth of it has more", (most[4]-most[1])/1e6, 4)
	return nil
}

// mixed asks the n-th question of a mixture; what becomes of it is no matter.
func (v *carrier) mixed(ctx context.Context, c *http.Client, n int) {
	method, path, body := http.MethodPost, "/predict", points
	switch n % 8 {
	case 0:
		method, path, body = http.MethodGet, "/stream?x=1&y=1&n=20", nil
	case 1:
		path = "/nothing/there"
	case 2:
		body = body[:len(body)/2]
	case 3: // whose client leaves after the first bytes
		var cancel func()
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		method, path, body = http.MethodGet, "/stream?x=1&y=1&n=20&delay=1s", nil
	}
	req, err := v.question(ctx, method, path, body)
	if err != nil {
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if n%8 == 3 {
		_, _ = io.ReadFull(resp.Body, make([]byte, 10))
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
}
