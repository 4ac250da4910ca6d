// Package here is what the command line knows where it runs inside of a replica.
//
// Place: layer 5, below cli. Promise: the replica's pass is shown to the replica's server alone, and a task that is submitted from within has what
// its author sees around them. Enemies: a server that somebody else named, a variable that was taken along to another place.
package here

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
)

const maxPass = 4096

// Token is the pass of the replica, for this server; "": there is none.
func Token(server string) string {
	file := os.Getenv("FERMI_TOKEN_FILE")
	if file == "" || server != os.Getenv("FERMI_SERVER") {
		return ""
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPass))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Take gives a task that is submitted from within a replica what that one has: its image, with the accounts for it, and what is mounted in it.
// passed says that the replica's pass is what speaks.
func Take(ctx context.Context, c *client.Client, passed bool, t *api.TrainingTask) error {
	project, id := os.Getenv("FERMI_PROJECT"), os.Getenv("FERMI_TASK_ID")
	kind, known := api.KindOfID(id)
	if !known || !passed || t.Meta.Project != "" && t.Meta.Project != project {
		return nil
	}
	o, err := c.Get(ctx, kind, project, os.Getenv("FERMI_TASK"))
	if err != nil {
		return err
	}
	w, ok := api.WorkloadOf(o)
	if !ok || o.GetMeta().ID != id {
		return nil
	}
	role := w.Role(os.Getenv("FERMI_ROLE"))
	if role == nil {
		return nil
	}
	t.Spec.Image = role.Image
	if own, ok := o.(*api.TrainingTask); ok {
		t.Spec.Image = own.Spec.ImageOf(role)
	}
	for _, cred := range w.Program.Credentials {
		if !slices.Contains(t.Spec.Credentials, cred) {
			t.Spec.Credentials = append(t.Spec.Credentials, cred)
		}
	}
	if len(t.Spec.Datasets) == 0 {
		t.Spec.Datasets = w.Program.Datasets
	}
	if len(t.Spec.Models) == 0 {
		t.Spec.Models = w.Program.Models
	}
	return nil
}
