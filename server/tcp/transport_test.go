package tcp_test
