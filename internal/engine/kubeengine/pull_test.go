package kubeengine

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/pull"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestPrivateImage: pods that name an account at a registry have it in one Secret, beside what pods of the namespace have anyway; it goes with the last of them, also
// when another leader made it. What never can be an account ends the replica.
func TestPrivateImage(t *testing.T) {
	z := newSite(t, true)
	s := z.s
	at := "/api/v1/namespaces/" + z.namespace
	s.Must(t, "PATCH", at+"/serviceaccounts/default", kubetest.Object{"imagePullSecrets": []kubetest.Object{{"name": "usual"}}}, nil)
	version := "v1"
	var wrong error
	open := func(epoch int64) (*Engine, func()) {
		c := z.cluster()
		c.Accounts = func(_ context.Context, r engine.Replica) (pull.Accounts, error) {
			if r.Credentials[0].Secret != "hub" {
				return pull.Accounts{}, wrong
			}
			return pull.Accounts{Version: version, List: []api.RegistryCredential{{Server: "registry.example.com", Username: "ann", Password: "p:w\"d"}}}, nil
		}
		e, err := New(z.config(epoch, c))
		if err != nil {
			t.Fatal(err)
		}
		return e, z.run(t, e)
	}
	replica := func(i int, secret string) engine.Replica {
		r := engine.Replica{
			Name: engine.Name(fmt.Sprintf("task-p-worker-%d-1", i)), TaskID: "task-p", Project: "p", Role: "worker", Index: i, Attempt: 1, Zone: "z", Node: "z-n",
			Image: "registry.example.com/a:1", Credentials: []api.CredentialRef{{Secret: secret}},
		}
		z.Shape(&r, false)
		return r
	}
	secrets := func() (out []corev1.Secret) {
		var list corev1.SecretList
		s.Must(t, "GET", at+"/secrets", nil, &list)
		return list.Items
	}
	end := func(e *Engine, r engine.Replica) {
		t.Helper()
		z.End(t, r.Name)
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if o, ok := e.Replica(r.Name); ok && o.State == engine.StateDone {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s has not ended", r.Name)
			}
		}
		if err := e.Remove(t.Context(), r.Name); err != nil {
			t.Fatal(err)
		}
	}
	first, stop := open(1)
	for i := range 2 {
		if err := first.Start(t.Context(), replica(i, "hub")); err != nil {
			t.Fatal(err)
		}
	}
	list := secrets()
	if len(list) != 1 || list[0].Type != corev1.SecretTypeDockerConfigJson || list[0].Labels[LabelZone] != "z" {
		t.Fatalf("%+v", list)
	}
	if got := string(list[0].Data[corev1.DockerConfigJsonKey]); got != `{"auths":{"registry.example.com":{"username":"ann","password":"p:w\"d","auth":"YW5uOnA6dyJk"}}}` {
		t.Errorf("%s", got)
	}
	var pod corev1.Pod
	s.Must(t, "GET", at+"/pods/task-p-worker-0-1", nil, &pod)
	if names := fmt.Sprint(pod.Spec.ImagePullSecrets); names != "[{"+list[0].Name+"} {usual}]" {
		t.Errorf("the pod has %s", names)
	}
	if strings.Contains(fmt.Sprint(pod), "p:w") {
		t.Error("the password is in the pod")
	}
	end(first, replica(0, "hub"))
	if len(secrets()) != 1 {
		t.Error("it went before the last pod that needs it")
	}
	stop()

	next, stop := open(2)
	defer stop()
	if err := next.Start(t.Context(), replica(2, "hub")); err != nil {
		t.Fatal(err)
	}
	end(next, replica(1, "hub"))
	if len(secrets()) != 1 {
		t.Error("it went before the last pod that needs it")
	}
	version = "v2" // somebody changed the password
	if err := next.Start(t.Context(), replica(3, "hub")); err != nil {
		t.Fatal(err)
	}
	if len(secrets()) != 2 {
		t.Error("another password is another Secret")
	}
	end(next, replica(2, "hub"))
	end(next, replica(3, "hub"))
	if left := secrets(); len(left) != 0 {
		t.Errorf("%d Secrets stay", len(left))
	}

	wrong = fault.New(fault.Invalid, "NoSuchSecret", fault.T("The secret is not there.", "密钥不存在。"))
	if err := next.Start(t.Context(), replica(4, "away")); err != nil {
		t.Fatal(err)
	}
	if o, ok := next.Replica(replica(4, "away").Name); !ok || o.Exit == nil || !strings.Contains(o.Exit.Message, "The secret is not there.") {
		t.Errorf("%+v", o)
	}
	code, _, err := s.Do(kubetest.Fermi, "GET", at+"/secrets", "", nil)
	if err != nil || code != http.StatusForbidden {
		t.Errorf("Fermi may read Secrets: %d %v", code, err)
	}
}
