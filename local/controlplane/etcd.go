// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdOptions configure a single-member etcd whose data may be lost: a laptop's
// cluster is rebuilt, never restored.
type etcdOptions struct {
	dataDir   string // required
	clientURL string // required; https://host:port to serve clients on
	certFile  string // required; serves clients and the (unused) peer port
	keyFile   string // required
	caFile    string // required; only clients it signed are answered
	fsync     bool   // zero means writes reach the disk when the kernel likes
}

func parseEtcdOptions(args []string) (etcdOptions, error) {
	var o etcdOptions
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.StringVar(&o.dataDir, "data-dir", "", "directory of the data")
	flags.StringVar(&o.clientURL, "listen-client-url", "", "https URL to serve clients on")
	flags.StringVar(&o.certFile, "cert-file", "", "serving certificate")
	flags.StringVar(&o.keyFile, "key-file", "", "key of the serving certificate")
	flags.StringVar(&o.caFile, "trusted-ca-file", "", "CA of the clients")
	flags.BoolVar(&o.fsync, "fsync", false, "wait for the disk on every write")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name, value := range map[string]string{
		"data-dir": o.dataDir, "listen-client-url": o.clientURL,
		"cert-file": o.certFile, "key-file": o.keyFile, "trusted-ca-file": o.caFile,
	} {
		if value == "" {
			return o, fmt.Errorf("--%s is required", name)
		}
	}
	return o, nil
}

func runEtcd(args []string) int {
	o, err := parseEtcdOptions(args)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = serveEtcd(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

// serveEtcd runs until ctx ends or the server fails.
func serveEtcd(ctx context.Context, o etcdOptions) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("serving: %w", err)
	}
}

// quotaBytes is etcd's own advice for the largest store. The default of 2 GB would
// end a long simulation with an alarm.
const quotaBytes = 8 << 30

func (o etcdOptions) config() (*embed.Config, error) {
	client, err := url.Parse(o.clientURL)
	if err != nil {
		return nil, fmt.Errorf("--listen-client-url: %w", err)
	}
	tls := transport.TLSInfo{
		CertFile: o.certFile, KeyFile: o.keyFile,
		TrustedCAFile: o.caFile, ClientCertAuth: true,
	}
	// Nothing connects to these: a single member has no peer, and the API server speaks gRPC.
	unused := url.URL{Scheme: "https", Host: "127.0.0.1:0"}

	cfg := embed.NewConfig()
	cfg.Name = "karve"
	cfg.Dir = o.dataDir
	cfg.ListenClientUrls = []url.URL{*client}
	cfg.AdvertiseClientUrls = []url.URL{*client}
	// Where HTTP/1 and gRPC share a port, many reads can starve watches, and etcd warns about it:
	// https://github.com/etcd-io/etcd/issues/15402.
	cfg.ListenClientHttpUrls = []url.URL{unused}
	cfg.ListenPeerUrls = []url.URL{unused}
	cfg.AdvertisePeerUrls = []url.URL{unused}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientTLSInfo = tls
	cfg.PeerTLSInfo = tls
	cfg.UnsafeNoFsync = !o.fsync
	cfg.QuotaBackendBytes = quotaBytes
	cfg.LogLevel = "warn"
	// etcd's own command sets this; the zero value warns about every request.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	return cfg, nil
}
