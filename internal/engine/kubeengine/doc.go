// Package kubeengine runs replicas as pods of a Kubernetes cluster. One engine is one zone: a cluster, and in it a namespace of ours.
//
// Place: layer 3, an adapter of the engine port. Its partners are the cluster's API server and, in the pod, the launcher, which it never
// speaks to: what it must know of the link comes in by Config.
//
// Promise: a replica becomes one pod with a name that is never used twice, bound to its node from its birth; the pod is the record of the
// replica, and stays, held by a finalizer, until Remove: whoever deletes it by hand ends its processes and loses no exit. The server may die
// between any two calls and the next one finds everything in the cluster. An order of a leader whose time is over ends nothing. A cluster
// that does not answer loses nothing: what was known of it last stays known, its nodes take no new work, and it is asked again, ever more
// slowly. Every refusal of the API server becomes words that name the rule, the quota or the credential.
//
// Enemies: polling, a second truth beside the pods, an order by a leader that was deposed, a decision taken on a list that is not whole.
//
// The simple story. Run enters its epoch in the namespace's record (a ConfigMap), then watches nodes and pods. A pod says by its status how far its
// replica got: created; started (its startup probe has passed, or the launcher said so over the link); ended, with the launcher's last
// words as its termination message. What ends a pod without last words (the kubelet's refusal, an eviction, the kernel, an image that is not there)
// is told by its reason. How the code differs: an exit that the engine itself decided, such as an image that can't be pulled, is
// written to the pod as an annotation before the pod is deleted, so that a crash between the two changes nothing.
package kubeengine
