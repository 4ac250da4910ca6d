package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// talker answers each question on a connection with the same bytes, at next to no cost.
func talker(b *testing.B, question int, answer []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReaderSize(c, 8<<10)
				for {
					for {
						line, err := in.ReadSlice('\n')
						if err != nil {
							return
						}
						if len(line) <= 2 {
							break
						}
					}
					if _, err := in.Discard(question); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// BenchmarkCarry is a question of 1 kB with an answer as long, with auth, limits, routing and metering. Client and replica cost little beside the gateway.
func BenchmarkCarry(b *testing.B) {
	body := strings.Repeat("x", 1024)
	w := newKnown(b)
	w.g = New(Config{Store: w.known})
	close(w.g.filled)
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Thu, 19 Nov 2026 14:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	w.serve("s", func(p *serving.ServiceEndpointsSpec) {
		p.Replicas = []serving.ServiceEndpoint{{Replica: "s-0", Address: talker(b, len(body), answer), Revision: 1}}
	})
	front := httptest.NewServer(w.g)
	defer front.Close()
	c, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ask := fmt.Appendf(nil, "POST /inference/s/predict HTTP/1.1\r\nHost: x\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", secretOf("ann"), len(body), body)
	in := bufio.NewReaderSize(c, 8<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(ask); err != nil {
			b.Fatal(err)
		}
		line, err := in.ReadSlice('\n')
		if err != nil || !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			b.Fatalf("%s %v", line, err)
		}
		for len(line) > 2 {
			if line, err = in.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := io.CopyN(io.Discard, in, int64(len(body))); err != nil {
			b.Fatal(err)
		}
	}
}
