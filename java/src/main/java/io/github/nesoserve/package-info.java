/**
 * Neso, the inference server, in a Java program: a server in this process, requests to its models,
 * their responses.
 *
 * <pre>{@code
 * try (NesoServer server = NesoServer.builder().repository(Path.of("models")).model("identity").start();
 *     Tensor x = Tensor.of(new float[] {1, 2, 3});
 *     Response response = server.infer(Request.to("identity").input("X", x).build())) {
 *   System.out.println(Arrays.toString(response.output("Y").toFloats()));
 * }
 * }</pre>
 *
 * <p><b>Who owns what.</b> What is {@link java.lang.AutoCloseable} ends by {@code close}, which may be
 * called twice. A {@link io.github.nesoserve.NesoServer} that nobody closes and nobody can reach is
 * stopped by the garbage collector, with a line in the log. Memory of tensors is that of direct
 * buffers: {@code close} gives it back for the next tensor, and the garbage collector takes what was
 * not closed. A request in flight holds its inputs, whatever the program closes meanwhile.
 *
 * <p><b>Threads.</b> Everything here may be used by every thread. Code of the program never runs on a
 * thread of the server: what it adds to a future, and its subscribers, run on an executor.
 *
 * <p><b>Errors.</b> What the server refuses is a {@link io.github.nesoserve.NesoException} with one of
 * the codes of {@link io.github.nesoserve.ErrorCode}; arguments that cannot be are an
 * {@link java.lang.IllegalArgumentException}, and the use of what is closed an
 * {@link java.lang.IllegalStateException}.
 */
package io.github.nesoserve;
