package io.github.nesoserve;

import java.lang.reflect.InvocationTargetException;

/** The way into the library that this process uses. */
final class Chosen {
  static final Native NATIVE = choose(System.getProperty(Native.BINDING, ""));

  private Chosen() {}

  private static Native choose(String binding) {
    boolean foreign = Runtime.version().feature() >= Native.FOREIGN_SINCE && present("Foreign");
    switch (binding) {
      case "":
        return foreign ? load("Foreign") : load("JavaCpp");
      case "javacpp":
        return load("JavaCpp");
      case "foreign":
        if (!foreign) {
          throw new IllegalStateException(
              "%s=foreign needs Java %d or newer and a jar that was built with it; this is Java %d"
                  .formatted(Native.BINDING, Native.FOREIGN_SINCE, Runtime.version().feature()));
        }
        return load("Foreign");
      default:
        throw new IllegalStateException("%s=%s: javacpp and foreign are known".formatted(Native.BINDING, binding));
    }
  }

  private static String name(String simple) {
    return Chosen.class.getPackageName() + "." + simple;
  }

  private static boolean present(String simple) {
    return Chosen.class.getResource(simple + ".class") != null;
  }

  /** By its name: the one is compiled by a newer compiler, the other needs the jars of JavaCPP. */
  private static Native load(String simple) {
    try {
      return (Native) Class.forName(name(simple)).getDeclaredConstructor().newInstance();
    } catch (InvocationTargetException e) {
      throw new IllegalStateException("libtritonserver.so cannot be used: " + e.getCause(), e.getCause());
    } catch (ReflectiveOperationException | LinkageError e) {
      Throwable cause = e instanceof ExceptionInInitializerError && e.getCause() != null ? e.getCause() : e;
      throw new IllegalStateException(
          "libtritonserver.so cannot be used: %s; is its directory in -Djava.library.path or LD_LIBRARY_PATH?".formatted(cause), cause);
    }
  }
}
