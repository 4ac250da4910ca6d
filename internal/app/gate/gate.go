package gate

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/app/hosts"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/gateway"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// usualAddress is where a gateway of its own listens when nobody says.
const usualAddress = "127.0.0.1:7071"

// Command is `fermi gateway`: the gateway by itself, beside `fermi up` on its machine or on an etcd outside.
func Command(version string) *cobra.Command {
	var region string
	cmd := &cobra.Command{
		Use: "gateway", Short: cli.Both("Carry inference requests to services; it goes on while the control plane is away", "转发推理请求；控制面不可用时继续工作"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("listen") && os.Getenv("FERMI_LISTEN") == "" {
				if err := cmd.Flags().Set("listen", usualAddress); err != nil {
					return err
				}
			}
			s, err := conf.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return serve(cmd, s, version, region)
		},
	}
	conf.Bind(cmd.Flags())
	cmd.Flags().StringVar(&region, "region", "", cli.Both("where its requests come from that don't say it; zones that serve it come first", "未注明来源的请求所在的区域；优先由服务该区域的可用区应答"))
	cmd.GroupID = cli.GroupCluster
	return cmd
}

// listen opens the door, with TLS where there is a certificate.
func listen(s *conf.Settings) (net.Listener, error) {
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, fault.New(fault.Conflict, "AddressInUse", fault.T("Can't listen on %s.", "无法监听 %s。", s.Listen)).
			WithHint(fault.T("Choose another address with --listen.", "可用 --listen 换一个地址。")).Because(err)
	}
	if s.TLS.Cert == "" {
		return l, nil
	}
	pair, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key)
	if err != nil {
		_ = l.Close()
		return nil, fault.New(fault.Invalid, "BadCertificate", fault.T("The certificate or its key can't be used.", "证书或私钥无法使用。")).Because(err)
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), nil
}

// linkKey is by which agents know the servers of their cluster.
const linkKey = "link.key"

// road reaches replicas on machines that joined, for who may read the servers' key; nil: it is not here.
func road(data string, known *store.Store, log *slog.Logger) func(context.Context, serving.Via, int) (net.Conn, error) {
	file := filepath.Join(data, linkKey)
	if _, err := os.Stat(file); err != nil {
		log.Info("services on machines that joined are not reached from here: the servers' key is not in the data folder", "error", err)
		return nil
	}
	return func(ctx context.Context, v serving.Via, port int) (net.Conn, error) {
		key, err := os.ReadFile(file)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "fermi", Err: err}
		}
		d := hosts.New(hosts.Config{Store: known, Keys: func() [][]byte { return [][]byte{key} }, Log: log}).Road()
		return d.Dial(ctx, v.Node, v.Agent, v.Replica, port)
	}
}

// slackBytes are counted by the collector as in use and touched by nobody: while little else is in use it collects a third as often, and when much is
// (many open streams) hardly less often than otherwise.
const slackBytes = 16 << 20

func serve(cmd *cobra.Command, s *conf.Settings, version, region string) error {
	defer runtime.KeepAlive(make([]byte, slackBytes))
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry()
	registry.MustRegister(telemetry.BuildInfo(version, ""))
	outside := store.Outside{Endpoints: s.EtcdEndpoints, CA: s.EtcdCA, Cert: s.EtcdCert, Key: s.EtcdKey}
	if len(outside.Endpoints) == 0 { // the one of `fermi up` on this machine
		at, err := embedded.EndpointOf(s.Data)
		if err != nil {
			return err
		}
		outside.Endpoints = []string{at}
	}
	client, err := store.Dial(outside)
	if err != nil {
		return err
	}
	defer client.Close()
	known := store.New(store.Config{Client: client, Log: log.With("part", "store"), Clock: clock.Real, Metrics: registry, Prefix: s.EtcdPrefix})
	l, err := listen(s)
	if err != nil {
		return err
	}
	cfg := gateway.Config{Store: known, Far: road(s.Data, known, log), Clock: clock.Real, Log: log.With("part", "gateway"), Register: registry, Domain: s.Doors.Content, Region: region}
	if len(s.EtcdEndpoints) == 0 {
		cfg.Report = teller(s.Data)
	}
	g := gateway.New(cfg)
	others := http.NewServeMux()
	others.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	others.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-known.Ready():
			fmt.Fprintln(w, "ok")
		default:
			http.Error(w, "the services are not known yet", http.StatusServiceUnavailable)
		}
	})
	others.Handle("GET /metrics", g.Operators(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	below, endBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer endBelow()
	var base run.Group // goes on until the last request is answered
	base.Add("store", known.Run)
	base.Add("gateway", g.Run)
	base.Add("shed", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-known.Ready():
			shed()
		}
		<-ctx.Done()
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- base.Run(below) }()
	fmt.Fprintf(cmd.OutOrStdout(), "gateway: http://%s/inference/NAME\n", l.Addr())
	err = g.Serve(ctx, l, others)
	endBelow()
	<-ended
	return err
}
