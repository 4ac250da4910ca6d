package chore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
)

// Fetch asks the registry of an image for somebody else, over a socket, until that hangs up. It speaks HTTP/2 there, so that several layers come at once.
type Fetch struct {
	Reference string
	Accounts  []Account
}

// Account is an api.RegistryCredential, whose password is in no JSON.
type Account struct{ Server, Username, Password string }

// Keep brings an image into the node's folder; it asks over a socket and believes what has the right digest.
type Keep struct {
	Dir, Reference string
	Owner          int
	Project        string
	Most           int64 // bytes of images that the project may have here; 0: no limit
	Known          bool
}

// Image is one that is there.
type Image struct {
	Digest     string
	Env        []string     `json:",omitempty"`
	Says       *rootfs.Says `json:",omitempty"`
	Remembered string       `json:",omitempty"` // why its registry was not asked
}

// answer is what the one says to the other about a reference.
type answer struct {
	rootfs.Answer
	Result
}

const (
	pathAsk  = "/ask"
	pathBlob = "/blob/"
)

// plainHTTP2 is HTTP/2 without TLS: nobody else is on the socket.
func plainHTTP2() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

// serve answers on the socket until its other end is closed.
func (f *Fetch) serve(socket *os.File) error {
	conn, err := net.FileConn(socket)
	if err != nil {
		return err
	}
	registry := &rootfs.Remote{Reference: f.Reference}
	for _, a := range f.Accounts {
		registry.Accounts = append(registry.Accounts, api.RegistryCredential(a))
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pathAsk, func(w http.ResponseWriter, r *http.Request) {
		a, err := registry.Ask(context.WithoutCancel(r.Context())) // layers are fetched with it later
		_ = json.NewEncoder(w).Encode(answer{a, failed(err)})
	})
	mux.HandleFunc(pathBlob, func(w http.ResponseWriter, r *http.Request) {
		body, err := registry.Blob(r.Context(), r.URL.Path[len(pathBlob):])
		if err != nil {
			http.Error(w, short(err.Error()), http.StatusBadGateway)
			return
		}
		defer body.Close()
		stop := context.AfterFunc(r.Context(), func() { body.Close() })
		defer stop()
		if _, err := io.Copy(w, body); err != nil {
			panic(http.ErrAbortHandler) // it is cut off, and the other end sees that
		}
	})
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	server := &http.Server{Handler: mux, Protocols: plainHTTP2(), ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			end()
		}
	}}
	go func() { _ = server.Serve(&one{conn: conn, over: over}) }()
	<-over
	return nil
}

// one listens to a connection that is there.
type one struct {
	conn net.Conn
	over chan struct{}
	once sync.Once
}

func (o *one) Accept() (c net.Conn, err error) {
	o.once.Do(func() { c = o.conn })
	if c != nil {
		return c, nil
	}
	<-o.over
	return nil, net.ErrClosed
}
func (o *one) Close() error   { return nil }
func (o *one) Addr() net.Addr { return o.conn.LocalAddr() }

// asked is the registry at the other end of the socket.
type asked struct{ client *http.Client }

// Ask is rootfs.Registry's.
func (a *asked) Ask(ctx context.Context) (rootfs.Answer, error) {
	body, err := a.get(ctx, pathAsk)
	if err != nil {
		return rootfs.Answer{}, err
	}
	defer body.Close()
	var said answer
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&said); err != nil {
		return rootfs.Answer{}, err
	}
	return said.Answer, said.Result.err()
}

// maxAnswer bounds what is said about a reference.
const maxAnswer = 32 << 20

// Blob is rootfs.Registry's.
func (a *asked) Blob(ctx context.Context, digest string) (io.ReadCloser, error) {
	return a.get(ctx, pathBlob+digest)
}

func (a *asked) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://registry"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
		return nil, errors.Join(fmt.Errorf("%s", text), resp.Body.Close())
	}
	return resp.Body, nil
}

// toldEvery is how often it is said how far an image is.
const toldEvery = time.Second

// bring makes the image be there and says how far it is.
func (k *Keep) bring(ctx context.Context, socket *os.File, out io.Writer) Result {
	conn, err := net.FileConn(socket)
	if err != nil {
		return failed(err)
	}
	var once sync.Once
	transport := &http.Transport{Protocols: plainHTTP2(), DialContext: func(context.Context, string, string) (c net.Conn, err error) {
		err = errors.New("who asks the registry has hung up")
		once.Do(func() { c, err = conn, nil })
		return c, err
	}}
	var mu sync.Mutex
	var told time.Time
	words := json.NewEncoder(out)
	image, err := rootfs.Bring(ctx, k.Dir, rootfs.Want{
		Reference: k.Reference, Registry: &asked{&http.Client{Transport: transport}}, Owner: k.Owner, Project: k.Project, Most: k.Most, Known: k.Known,
		Progress: func(done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); total > 0 && now.Sub(told) >= toldEvery {
				told = now
				_ = words.Encode(Result{Done: done, Total: total})
			}
		},
	})
	if err != nil {
		return failed(err)
	}
	r := Result{Image: &Image{Digest: image.Digest, Env: image.Env, Says: image.Says}}
	if image.Remembered != nil {
		r.Image.Remembered = short(image.Remembered.Error())
	}
	return r
}
