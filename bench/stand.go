package main

import (
	"context"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// stand starts the shipped binary, as `fermi up` with these arguments, in a folder of its own, and a client of it; the caller
// cleans up.
func stand(ctx context.Context, args ...string) (*harness.Cluster, *client.Client, error) {
	bin, err := harness.Binary()
	if err != nil {
		return nil, nil, err
	}
	c, err := harness.New(bin, "up", args...)
	if err != nil {
		return nil, nil, err
	}
	err = c.Start(ctx)
	var cl *client.Client
	if err == nil {
		cl, err = c.Client()
	}
	if err != nil {
		c.Cleanup()
		return nil, nil, err
	}
	return c, cl, nil
}
