package gate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

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
			return serve(cmd, s, version)
		},
	}
	conf.Bind(cmd.Flags())
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
	if s.TLSCert == "" {
		return l, nil
	}
	pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		_ = l.Close()
		return nil, fault.New(fault.Invalid, "BadCertificate", fault.T("The certificate or its key can't be used.", "证书或私钥无法使用。")).Because(err)
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), nil
}

func serve(cmd *cobra.Command, s *conf.Settings, version string) error {
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
	g := gateway.New(gateway.Config{Store: known, Clock: clock.Real, Log: log.With("part", "gateway"), Register: registry})
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
	ended := make(chan error, 1)
	go func() { ended <- base.Run(below) }()
	fmt.Fprintf(cmd.OutOrStdout(), "gateway: http://%s/inference/NAME\n", l.Addr())
	err = g.Serve(ctx, l, others)
	endBelow()
	<-ended
	return err
}
