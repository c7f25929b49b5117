// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// server is an API server that has the node and makes names, as real ones do, and can be less than that.
type server struct {
	*fake.Clientset
	away      atomic.Bool // it does not answer
	taintless atomic.Bool // it drops taints
	made      atomic.Int64
}

var errAway = errors.New("connection refused")

func newServer() *server {
	s := &server{Clientset: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}})}
	s.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if s.away.Load() {
			return true, nil, errAway
		}
		if write, ok := a.(interface{ GetObject() runtime.Object }); ok {
			s.admit(write.GetObject())
		}
		return false, nil, nil
	})
	s.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		return s.away.Load(), nil, errAway
	})
	return s
}

func (s *server) admit(o runtime.Object) {
	slice, ok := o.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	if slice.Name == "" {
		slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, s.made.Add(1))
	}
	if s.taintless.Load() {
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].Taints = nil
		}
	}
}
