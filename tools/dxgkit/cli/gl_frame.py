#!/usr/bin/env python3
"""An OpenGL ES program with a fixed picture, without a window system: gl_frame.py WIDTH HEIGHT TEXTURES FILE [wait].

Each texture is drawn as a turned square with its depth, half over its neighbours; then a band of each texture is changed, and all are drawn anew.
With `wait` it says "half" before that, and goes on when a line comes. FILE gets the picture (PPM). Each square is a command stream of its own, so that no stream needs all textures at once. Stdout: the renderer's name.
"""
import ctypes
import math
import sys

EGL = ctypes.CDLL("libEGL.so.1")
GL = ctypes.CDLL("libGLESv2.so.2")
for name in ("eglGetPlatformDisplay", "eglCreateContext"):
    getattr(EGL, name).restype = ctypes.c_void_p
GL.glGetString.restype = ctypes.c_char_p
TEXTURE_SIDE = 256

VERTEX = b"""attribute vec3 place; attribute vec2 at; varying vec2 to;
void main() { gl_Position = vec4(place, 1.0); to = at; }"""
FRAGMENT = b"""precision highp float; varying vec2 to; uniform sampler2D picture; uniform vec4 tint;
void main() { gl_FragColor = texture2D(picture, to) * tint + vec4(0.0, 0.0, to.x * to.y * 0.25, 0.0); }"""


def check(what, good):
    if not good:
        sys.exit(f"{what} failed: EGL 0x{EGL.eglGetError():X}, GL 0x{GL.glGetError():X}")


def integers(*values):
    return (ctypes.c_int * len(values))(*values)


def make_context():
    surfaceless, none, es = 0x31DD, 0x3038, 0x30A0
    display = ctypes.c_void_p(EGL.eglGetPlatformDisplay(surfaceless, None, None))
    check("eglInitialize", EGL.eglInitialize(display, None, None))
    check("eglBindAPI", EGL.eglBindAPI(es))
    config, count = ctypes.c_void_p(), ctypes.c_int()
    wanted = integers(0x3040, 4, 0x3033, 0x1, none)  # OpenGL ES 2, pbuffers
    check("eglChooseConfig", EGL.eglChooseConfig(display, wanted, ctypes.byref(config), 1, ctypes.byref(count)) and count.value == 1)
    context = ctypes.c_void_p(EGL.eglCreateContext(display, config, None, integers(0x3098, 2, none)))
    check("eglCreateContext", context.value)
    check("eglMakeCurrent", EGL.eglMakeCurrent(display, None, None, context))


def make_program():
    program = GL.glCreateProgram()
    for kind, text in ((0x8B31, VERTEX), (0x8B30, FRAGMENT)):
        shader = GL.glCreateShader(kind)
        GL.glShaderSource(shader, 1, ctypes.byref(ctypes.c_char_p(text)), None)
        GL.glCompileShader(shader)
        GL.glAttachShader(program, shader)
    GL.glBindAttribLocation(program, 0, b"place")
    GL.glBindAttribLocation(program, 1, b"at")
    GL.glLinkProgram(program)
    linked = ctypes.c_int()
    GL.glGetProgramiv(program, 0x8B82, ctypes.byref(linked))
    check("glLinkProgram", linked.value)
    GL.glUseProgram(program)
    return GL.glGetUniformLocation(program, b"tint")


def make_target(width, height):
    names = (ctypes.c_uint * 3)()
    GL.glGenFramebuffers(1, names)
    GL.glBindFramebuffer(0x8D40, names[0])
    GL.glGenRenderbuffers(2, ctypes.byref(names, 4))
    for name, kind, attachment in ((names[1], 0x8058, 0x8CE0), (names[2], 0x81A5, 0x8D00)):  # RGBA8, depth of 16 bits
        GL.glBindRenderbuffer(0x8D41, name)
        GL.glRenderbufferStorage(0x8D41, kind, width, height)
        GL.glFramebufferRenderbuffer(0x8D40, attachment, 0x8D41, name)
    check("the framebuffer", GL.glCheckFramebufferStatus(0x8D40) == 0x8CD5)
    GL.glViewport(0, 0, width, height)
    GL.glEnable(0x0B71)  # depth test


def pattern(number, rows, seed):
    row = bytes((x * (number + 3) + seed * 17 + channel * 40) & 0xFF for x in range(TEXTURE_SIDE) for channel in range(4))
    return b"".join(row[4 * (y + number & 15):] + row[:4 * (y + number & 15)] for y in range(rows))


def draw_square(number, count, tint):
    columns = math.ceil(math.sqrt(count))
    x, y = (2 * (number % columns) + 1) / columns - 1, (2 * (number // columns) + 1) / columns - 1
    size, angle = 1.4 / columns, 0.3 + number * 0.7
    corners = []
    for i, (s, t) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        turn = angle + (math.pi / 4) * (1, 3, 7, 5)[i]
        corners += [x + size * math.cos(turn), y + size * math.sin(turn), math.sin(number * 1.3) * 0.9, s, t]
    data = (ctypes.c_float * len(corners))(*corners)
    GL.glVertexAttribPointer(0, 3, 0x1406, 0, 20, data)
    GL.glVertexAttribPointer(1, 2, 0x1406, 0, 20, ctypes.byref(data, 12))
    GL.glEnableVertexAttribArray(0)
    GL.glEnableVertexAttribArray(1)
    GL.glUniform4f(tint, *(ctypes.c_float(0.5 + 0.5 * math.cos(number + k)) for k in (0, 2, 4)), ctypes.c_float(1))
    GL.glDrawArrays(5, 0, 4)
    GL.glFlush()


def main():
    width, height, count, path = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    make_context()
    print(GL.glGetString(0x1F01).decode(), flush=True)
    tint = make_program()
    make_target(width, height)
    textures = (ctypes.c_uint * count)()
    GL.glGenTextures(count, textures)
    for again in (False, True):
        if again and sys.argv[5:] == ["wait"]:
            GL.glFinish()
            print("half", flush=True)
            sys.stdin.readline()
        GL.glClearColor(*(ctypes.c_float(v) for v in (0.1, 0.2, 0.3, 1)))
        GL.glClear(0x4100)
        for number, texture in enumerate(textures):
            GL.glBindTexture(0x0DE1, texture)
            if again:
                GL.glTexSubImage2D(0x0DE1, 0, 0, 64, TEXTURE_SIDE, 100, 0x1908, 0x1401, pattern(number, 100, 9))
            else:
                for name, value in ((0x2800, 0x2601), (0x2801, 0x2601), (0x2802, 0x812F), (0x2803, 0x812F)):  # linear, clamped
                    GL.glTexParameteri(0x0DE1, name, value)
                GL.glTexImage2D(0x0DE1, 0, 0x1908, TEXTURE_SIDE, TEXTURE_SIDE, 0, 0x1908, 0x1401, pattern(number, TEXTURE_SIDE, 1))
            draw_square(number, count, tint)
    pixels = ctypes.create_string_buffer(width * height * 4)
    GL.glReadPixels(0, 0, width, height, 0x1908, 0x1401, pixels)
    check("drawing", GL.glGetError() == 0)
    with open(path, "wb") as file:
        file.write(b"P6 %d %d 255\n" % (width, height))
        file.write(bytes(value for i, value in enumerate(pixels.raw[:width * height * 4]) if i % 4 != 3))


if __name__ == "__main__":
    main()
