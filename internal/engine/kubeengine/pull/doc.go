// Package pull is how the kubelet gets at images of private registries: accounts that work names lie in a Secret of the namespace as long as pods need them.
//
// Place: layer 3, of the engine of clusters. Promise: no pod is made before its Secret is there; one Secret serves all pods that name the same accounts, and goes
// with the last of them; a password that was changed is another Secret. Secrets are made and deleted, never read. Enemies: a Secret for each replica, an account
// that stays behind, a right to read what others keep in the namespace.
package pull
