package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	backoffs "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	dialTimeout = 5 * time.Second
	// gRPC asks an idle peer no more often than this.
	dialAlive = 10 * time.Second
	// deafTimeout is also TCP_USER_TIMEOUT: a connection whose bytes nobody acknowledges for so long is
	// given up, and the next member is asked. Acknowledging is the kernel's work: a busy etcd does it.
	deafTimeout = time.Second
)

// Outside is an etcd that is not ours.
type Outside struct {
	Endpoints []string
	// CA, Cert and Key are files, for https endpoints; CA "" means the system's, Cert "" none. They
	// are read again for every connection, so that a renewed certificate needs no restart.
	CA, Cert, Key string
}

// Dial makes a client and connects to nobody yet. It fails where the files can't be used.
func Dial(o Outside) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints: o.Endpoints, DialTimeout: dialTimeout, DialKeepAliveTime: dialAlive, DialKeepAliveTimeout: deafTimeout,
		Logger: zap.NewNop(),
		// gRPC's own would wait up to two minutes after a long cut, and twenty seconds for an answer that is lost.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoffs.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}, MinConnectTimeout: 2 * time.Second,
		})},
	}
	if o.secure() {
		first, err := o.tls()
		if err != nil {
			return nil, err
		}
		cfg.TLS = first // the client wants one; the option below is what connects
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(&renewing{credentials.NewTLS(first), o.tls}))
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadEtcd", fault.T("The etcd endpoints can't be used.", "无法使用给定的 etcd 端点。")).Because(err)
	}
	return c, nil
}

func (o Outside) secure() bool {
	for _, e := range o.Endpoints {
		if strings.HasPrefix(e, "https://") || strings.HasPrefix(e, "unixs://") {
			return true
		}
	}
	return false
}

// tls reads the files.
func (o Outside) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, badEtcdFile(o.CA, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, badEtcdFile(o.CA, errors.New("no certificate in it"))
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, badEtcdFile(o.Cert, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func badEtcdFile(path string, err error) error {
	return fault.New(fault.Invalid, "BadEtcdCertificate", fault.T(
		"The file %q can't be used to connect to etcd.", "文件 %q 无法用于连接 etcd。", path)).WithHint(fault.T(
		"etcd.ca and etcd.cert are PEM certificates, etcd.key is the unencrypted PEM key of etcd.cert.",
		"etcd.ca 与 etcd.cert 为 PEM 证书，etcd.key 为 etcd.cert 对应的未加密 PEM 私钥。")).Because(err)
}

// renewing reads the certificates for each handshake.
type renewing struct {
	credentials.TransportCredentials // for all but the handshake
	load                             func() (*tls.Config, error)
}

func (r *renewing) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := r.load()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, conn)
}

func (r *renewing) Clone() credentials.TransportCredentials {
	return &renewing{r.TransportCredentials.Clone(), r.load}
}
