#!/usr/bin/env bash
# Builds the programs of Kubernetes that the suites run against, from source, into the cache; what is there by its version is not built
# again. Usage: test/kube/build.sh [PROGRAM…]; without one all of them. Prints where each is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${FERMI_KUBE_CACHE:-$here/../../.cache/kube}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

kube=$(cd "$here" && awk '$1 == "k8s.io/kubernetes" {print $2}' go.mod)
etcd=$(cd "$here" && awk '$1 == "go.etcd.io/etcd/server/v3" {print $2; exit}' go.mod)
kwok=v0.7.0
helm=v3.22.0
kueue=v0.15.0
volcano=v1.14.1

build() {
  local name=$1 version=$2 to=$cache/$1-$2
  if [ ! -x "$to" ]; then
    echo "building $name $version" >&2
    case $name in
      etcd) (cd "$here" && CGO_ENABLED=0 go build -trimpath -o "$to.new" go.etcd.io/etcd/server/v3) ;;
      # Debian's own: the tool alone is wanted, not a server that runs.
      promtool) (mkdir "$to.d" && cd "$to.d" && apt-get download -q prometheus >/dev/null 2>&1 && dpkg-deb -x prometheus_*.deb . && mv usr/bin/promtool "$to.new" && rm -rf "$to.d") ;;
      # Of those that keep queues the definitions of their objects are enough: files of their modules.
      kueue-crds | volcano-crds) cp -r "$(cd "$here" && GOFLAGS=-mod=mod go mod download -json "$3@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/$4" "$to.new" && chmod -R u+w "$to.new" ;;
      kwok | helm) GOBIN="$cache/bin.$$" CGO_ENABLED=0 GOFLAGS="-trimpath ${GOFLAGS:-}" go install -ldflags "-s -w" "$3@$version" && mv "$cache/bin.$$/$name" "$to.new" && rmdir "$cache/bin.$$" ;;
      *) (cd "$here" && CGO_ENABLED=0 go build -trimpath \
           -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${version:3:2}" \
           -o "$to.new" "k8s.io/kubernetes/cmd/$name") ;;
    esac
    mv "$to.new" "$to"
  fi
  echo "$to"
}

[ $# -gt 0 ] || set -- etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kwok helm promtool kueue-crds volcano-crds
for name in "$@"; do
  case $name in
    etcd) build etcd "$etcd" ;;
    kwok) build kwok "$kwok" sigs.k8s.io/kwok/cmd/kwok ;;
    promtool) build promtool vdebian ;;
    kueue-crds) build kueue-crds "$kueue" sigs.k8s.io/kueue config/components/crd/bases ;;
    volcano-crds) build volcano-crds "$volcano" volcano.sh/volcano config/crd/volcano/bases ;;
    helm) build helm "$helm" helm.sh/helm/v3/cmd/helm ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubelet | kubectl) build "$name" "$kube" ;;
    *) echo "no such program: $name" >&2; exit 2 ;;
  esac
done
